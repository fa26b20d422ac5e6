"""The judge is judged first: each violation is put into an otherwise clean run, and must be the one that is found."""

from collections.abc import Callable

import pytest

from tests.chaos.checker import Promise, Stored, WriterHistory, judge
from tests.chaos.payload import Numbered, decode, encode

RECORDS = 20
EXACT = Promise(is_idempotent=True, keeps_order=True)
LOOSE = Promise(is_idempotent=False, keeps_order=False)
Log = list[Stored]


def clean_run(promise: Promise = EXACT) -> tuple[WriterHistory, Log]:
    history = WriterHistory(writer=1, promise=promise)
    log = []
    for offset in range(RECORDS):
        record = history.send(0)
        history.acknowledge(record, offset)
        log.append(Stored(offset, record))
    return history, log


def renumbered(log: Log) -> Log:
    return [Stored(offset, stored.record) for offset, stored in enumerate(log)]


def repeat_a_record(log: Log) -> Log:
    return [*log, Stored(len(log), log[3].record)]


def swap_two(log: Log) -> Log:
    return renumbered([*log[:4], log[5], log[4], *log[6:]])


def damage(log: Log) -> Log:
    return [*log[:4], Stored(4, None), *log[5:]]


def put_in_a_stranger(log: Log) -> Log:
    return [*log, Stored(len(log), Numbered(9, 0, 0))]


def put_in_one_of_another_partition(log: Log) -> Log:
    return [*log, Stored(len(log), Numbered(1, 7, 0))]


def skip_an_offset(log: Log) -> Log:
    return [*log[:10], *(Stored(offset + 1, record) for offset, record in log[10:])]


def test_a_clean_run_has_no_violations() -> None:
    history, log = clean_run()
    verdict = judge([history], {0: log}, reads=[(0, log[3]), (0, log[4])])
    verdict.require_clean()
    assert (verdict.sent, verdict.acknowledged, verdict.stored) == (RECORDS, RECORDS, RECORDS)


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        ("lost", lambda log: log[:-1]),
        ("moved", swap_two),
        ("reordered", swap_two),
        ("duplicate", repeat_a_record),
        ("corrupt", damage),
        ("lost", damage),
        ("invented", put_in_a_stranger),
        ("invented", put_in_one_of_another_partition),
        ("hole", skip_an_offset),
        ("moved", skip_an_offset),
    ],
)
def test_each_violation_is_found(kind: str, spoil: Callable[[Log], Log]) -> None:
    history, log = clean_run()
    verdict = judge([history], {0: spoil(log)})
    assert kind in verdict.violations
    with pytest.raises(AssertionError, match=kind):
        verdict.require_clean()


def test_what_a_reader_saw_must_stay() -> None:
    history, log = clean_run()
    verdict = judge([history], {0: log}, reads=[(0, Stored(3, log[4].record)), (0, Stored(RECORDS, log[0].record))])
    assert verdict.violations == {"changed": 2}


def test_an_idempotent_writer_is_never_refused() -> None:
    history, log = clean_run()
    history.failures.append("a record failed")
    history.fatal = "out of order sequence"
    assert judge([history], {0: log}).violations == {"refused": 2}


def test_a_loose_writer_may_repeat_and_lose_what_nobody_acknowledged() -> None:
    history, log = clean_run(LOOSE)
    history.send(0)
    verdict = judge([history], {0: repeat_a_record(log)})
    verdict.require_clean()
    assert (verdict.repeated, verdict.absent) == (1, 1)


def test_a_value_tells_who_it_is_and_notices_damage() -> None:
    record = Numbered(3, 2, 12_345)
    value = encode(record, 200)
    assert decode(value) == record
    for position in range(len(value)):
        assert decode(value[:position] + bytes([value[position] ^ 0x10]) + value[position + 1 :]) is None
    assert decode(value[:-1]) is None
    assert decode(None) is None
