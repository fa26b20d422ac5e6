"""The judge of exactly-once is judged first: each violation is put into a clean run, and must be the one that is found."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.chaos.outputs import Output, TransactionName, decode_output, encode_output
from tests.chaos.transform_checker import OutputPartition, StoredOutput, TransformRun, judge_transform

INPUTS = 12
INPUTS_PER_TRANSACTION = 3
LEFT, RIGHT = OutputPartition("left", 0), OutputPartition("right", 1)
Logs = dict[OutputPartition, list[StoredOutput]]


def transaction_of(source_offset: int) -> TransactionName:
    return TransactionName(1, 0, source_offset // INPUTS_PER_TRANSACTION)


def output_of(source_offset: int) -> Output:
    return Output(0, source_offset, transaction_of(source_offset), False)


def log_offset(source_offset: int) -> int:
    """Each transaction's marker takes an offset of its own."""
    return source_offset + source_offset // INPUTS_PER_TRANSACTION


def clean_run() -> TransformRun:
    log = [StoredOutput(log_offset(source), output_of(source)) for source in range(INPUTS)]
    return TransformRun(
        input_end_offsets={0: INPUTS},
        routes={LEFT: 0, RIGHT: 0},
        logs={LEFT: list(log), RIGHT: list(log)},
        committed_offsets={0: INPUTS},
        outcomes={transaction_of(source): True for source in range(INPUTS)} | {TransactionName(1, 0, 99): False},
        reads=[(LEFT, log[0]), (RIGHT, log[0]), (LEFT, log[1])],
    )


def with_left(run: TransformRun, log: list[StoredOutput]) -> TransformRun:
    return replace(run, logs={**run.logs, LEFT: log})


def without(run: TransformRun, source_offset: int) -> list[StoredOutput]:
    return [stored for stored in run.logs[LEFT] if stored.output != output_of(source_offset)]


def lose_one(run: TransformRun) -> TransformRun:
    return with_left(run, without(run, 4))


def lose_one_everywhere(run: TransformRun) -> TransformRun:
    return replace(run, logs=dict.fromkeys(run.logs, without(run, 4)))


def lose_the_end(run: TransformRun) -> TransformRun:
    return with_left(run, list(run.logs[LEFT])[:-INPUTS_PER_TRANSACTION])


def repeat_in_another_transaction(run: TransformRun) -> TransformRun:
    again = output_of(3)._replace(transaction=TransactionName(2, 0, 0))
    repeated = StoredOutput(100, again)
    return replace(run, logs={place: [*log, repeated] for place, log in run.logs.items()})


def swap_two(run: TransformRun) -> TransformRun:
    log = list(run.logs[LEFT])
    log[4], log[5] = StoredOutput(log[4].offset, log[5].output), StoredOutput(log[5].offset, log[4].output)
    return with_left(run, log)


def damage(run: TransformRun) -> TransformRun:
    return with_left(run, [StoredOutput(0, None), *list(run.logs[LEFT])[1:]])


def put_in_what_has_no_input(run: TransformRun) -> TransformRun:
    return with_left(run, [*run.logs[LEFT], StoredOutput(100, output_of(INPUTS))])


def put_in_one_of_another_partition(run: TransformRun) -> TransformRun:
    return with_left(run, [*run.logs[LEFT], StoredOutput(100, output_of(0)._replace(source_partition=3))])


def show_a_doomed_one(run: TransformRun) -> TransformRun:
    log = list(run.logs[LEFT])
    log[0] = StoredOutput(0, output_of(0)._replace(is_doomed=True))
    return with_left(run, log)


def show_an_aborted_one(run: TransformRun) -> TransformRun:
    return replace(run, outcomes={**run.outcomes, transaction_of(0): False})


def forget_a_transaction(run: TransformRun) -> TransformRun:
    return replace(run, outcomes={**run.outcomes, TransactionName(5, 0, 0): True})


def commit_too_little(run: TransformRun) -> TransformRun:
    return replace(run, committed_offsets={0: INPUTS - 1})


def commit_nothing(run: TransformRun) -> TransformRun:
    return replace(run, committed_offsets={})


def read_what_is_gone(run: TransformRun) -> TransformRun:
    return replace(run, reads=[(LEFT, StoredOutput(100, output_of(0)))])


def read_backwards(run: TransformRun) -> TransformRun:
    return replace(run, reads=[(LEFT, run.logs[LEFT][1]), (LEFT, run.logs[LEFT][0])])


def test_a_clean_run_has_no_violations() -> None:
    verdict = judge_transform(clean_run())
    verdict.require_clean()
    counts = (verdict.input_count, verdict.transaction_count, verdict.unanswered_count, verdict.aborted_count)
    assert counts == (INPUTS, INPUTS // INPUTS_PER_TRANSACTION, 0, 1)


@pytest.mark.parametrize(
    ("kinds", "spoil"),
    [
        ({"lost", "torn"}, lose_one),
        ({"lost"}, lose_one_everywhere),
        ({"lost", "torn"}, lose_the_end),
        ({"duplicate"}, repeat_in_another_transaction),
        ({"reordered"}, swap_two),
        ({"corrupt", "lost", "torn", "changed"}, damage),
        ({"invented", "torn"}, put_in_what_has_no_input),
        ({"invented", "torn"}, put_in_one_of_another_partition),
        ({"aborted", "changed"}, show_a_doomed_one),
        ({"aborted"}, show_an_aborted_one),
        ({"forgotten"}, forget_a_transaction),
        ({"offset"}, commit_too_little),
        ({"offset"}, commit_nothing),
        ({"changed"}, read_what_is_gone),
        ({"changed"}, read_backwards),
    ],
)
def test_each_violation_is_found_and_no_other(kinds: set[str], spoil: Callable[[TransformRun], TransformRun]) -> None:
    verdict = judge_transform(spoil(clean_run()))
    assert set(verdict.violations) == kinds
    with pytest.raises(AssertionError, match=min(kinds)):
        verdict.require_clean()


def test_a_worker_that_died_may_have_committed() -> None:
    """Nobody was told: the transaction may be there or not, but not in part."""
    run = clean_run()
    verdict = judge_transform(replace(run, outcomes={}))
    verdict.require_clean()
    assert verdict.unanswered_count == verdict.transaction_count


def test_an_output_tells_what_it_is_and_notices_damage() -> None:
    output = Output(3, 12_345, TransactionName(1, 2, 1 << 40), True)
    value = encode_output(output)
    assert decode_output(value) == output
    for position in range(len(value)):
        assert decode_output(value[:position] + bytes([value[position] ^ 0x10]) + value[position + 1 :]) is None
    assert decode_output(value[:-1]) is None
    assert decode_output(None) is None
