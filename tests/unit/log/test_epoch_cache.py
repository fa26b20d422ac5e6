"""Leader epochs against a model that knows the epoch of every single offset."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.log.checkpoints import decode_epochs, encode_epochs
from ottla.log.epoch_cache import UNKNOWN_EPOCH_END, EpochCache, EpochEnd

# Who wrote each offset: epochs never go back.
histories = st.lists(st.integers(0, 2), min_size=1, max_size=40).map(
    lambda steps: [sum(steps[: n + 1]) for n in range(len(steps))]
)


def cache_of(history: list[int]) -> EpochCache:
    cache = EpochCache()
    for offset, epoch in enumerate(history):
        cache.assign(epoch, offset)
    return cache


def starts(history: list[int], first_offset: int = 0) -> list[tuple[int, int]]:
    kept = list(enumerate(history))[first_offset:]
    return [(epoch, offset) for at, (offset, epoch) in enumerate(kept) if at == 0 or kept[at - 1][1] != epoch]


@given(histories)
def test_every_offset_has_the_epoch_it_was_written_in(history: list[int]) -> None:
    cache = cache_of(history)
    assert [cache.epoch_of(offset) for offset in range(len(history))] == history


@given(histories, st.integers(0, 90))
def test_end_of_an_epoch_is_where_a_later_one_begins(history: list[int], epoch: int) -> None:
    end = cache_of(history).end_of(epoch, len(history))
    if epoch > history[-1]:
        assert end == UNKNOWN_EPOCH_END
    else:
        later = [offset for offset, written in enumerate(history) if written > epoch]
        known = [written for written in history if written <= epoch]
        assert end == EpochEnd(known[-1] if known else epoch, later[0] if later else len(history))


@given(histories, st.integers(0, 40))
def test_cutting_the_end(history: list[int], end_offset: int) -> None:
    cache = cache_of(history)
    cache.truncate_end(end_offset)
    assert cache.entries() == starts(history[:end_offset])
    assert cache.latest_epoch == (history[:end_offset] or [-1])[-1]


@given(histories, st.integers(0, 39))
def test_cutting_the_start(history: list[int], start_offset: int) -> None:
    cache = cache_of(history)
    start_offset = min(start_offset, len(history) - 1)
    cache.truncate_start(start_offset)
    assert cache.entries() == starts(history, start_offset)


def test_an_epoch_that_contradicts_others_replaces_them() -> None:
    cache = EpochCache([(1, 0), (4, 10), (5, 20)])
    cache.assign(3, 15)
    assert cache.entries() == [(1, 0), (3, 15)]


def test_the_file_is_written_only_when_it_would_say_something_new() -> None:
    cache = EpochCache([(1, 0)])
    assert cache.take_unsaved(log_end_offset=10) is None
    cache.assign(2, 10)
    assert cache.take_unsaved(log_end_offset=10) is None, "nothing was written in epoch 2 yet"
    assert cache.take_unsaved(log_end_offset=11) == [(1, 0), (2, 10)]
    assert cache.take_unsaved(log_end_offset=12) is None


def test_the_file_is_kafkas() -> None:
    assert encode_epochs([(0, 0), (3, 120)]) == b"0\n2\n0 0\n3 120\n"
    assert decode_epochs(b"0\n2\n0 0\n3 120\n", "file") == [(0, 0), (3, 120)]
