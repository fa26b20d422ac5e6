"""Compaction against a model: random histories, several passes with time moving on, restarts in between.

Whatever a pass does, a reader of committed records who starts anew ends with the same value for every key, and every
record that is left is the one that was written. Below the end of a pass each key is there once, aborted records are not
there at all, and a tombstone is gone only after its horizon.
"""

from random import Random

import pytest

from ottla.log.compaction.job import CleaningDone
from ottla.log.partition_log import PartitionLog
from ottla.wire.records import Record
from sim.log_model import check_indexes
from tests.unit.log.compaction_support import (
    COMPACTED,
    DELETE_RETENTION_MS,
    History,
    batches_of,
    compact,
    newest_by_key,
    random_history,
    seal,
)
from tests.unit.log.support import new_disk, open_log


def check(history: History, first_seen_ms: dict[int, int], cleaned_end: int, now_ms: int) -> None:
    log = history.log
    committed = history.committed()
    found = {
        record.offset: record for header, records in batches_of(log) if not header.is_control for record in records
    }
    for offset, record in found.items():
        assert record == history.records[offset]
        assert not (offset in history.aborted_offsets and offset < cleaned_end), "an aborted record is left"
    newest = newest_by_key(committed)
    seen = newest_by_key({offset: record for offset, record in found.items() if offset in committed})
    for key, record in newest.items():
        if record.value is not None:
            assert seen[key] == record, "the newest value of a key is lost"
        elif key in seen:
            assert seen[key] == record, "a deleted value is back"
        else:
            assert now_ms >= first_seen_ms[record.offset] + DELETE_RETENTION_MS, "a tombstone went too early"
    _check_once(history, {o: r for o, r in found.items() if o < cleaned_end})
    for header, records in batches_of(log):
        if header.has_delete_horizon:  # Also behind `cleaned_end`, where the pass ran out of memory inside a segment.
            for record in records:
                first_seen_ms.setdefault(record.offset, now_ms)
    assert all(
        offset in first_seen_ms for offset, record in found.items() if record.value is None and offset < cleaned_end
    )
    _check_markers(history, log)
    check_indexes(log)


def _check_once(history: History, cleaned: dict[int, Record]) -> None:
    keys = [record.key for record in cleaned.values()]
    assert len(keys) == len(set(keys)), "a key is there twice"


def _check_markers(history: History, log: PartitionLog) -> None:
    """A reader of the log decides every transaction as it was decided."""
    open_producers: dict[int, list[int]] = {}
    for header, records in batches_of(log):
        if header.is_control:
            open_producers.pop(header.producer_id, None)
        elif header.is_transactional and records:
            open_producers.setdefault(header.producer_id, []).extend(record.offset for record in records)
    undecided = {offset for offsets in history.open_offsets.values() for offset in offsets}
    assert {offset for offsets in open_producers.values() for offset in offsets} <= undecided, "a marker is missing"


def check_producers(history: History) -> None:
    """Nobody's sequence is broken: each producer's next batch is taken."""
    for producer_id, sequence in sorted(history.next_sequences.items()):
        state = history.log.producer_state
        assert producer_id in state.producers
        assert state.check(producer_id, 0, sequence, sequence, producer_id > 10) is None


@pytest.mark.parametrize("seed", range(25))
def test_every_history(seed: int) -> None:
    chance = Random(seed)
    disk = new_disk()
    history = History(open_log(disk, COMPACTED))
    first_seen_ms: dict[int, int] = {}
    cleaned_end = 0
    for _ in range(6):
        random_history(history, chance, chance.randint(5, 40), key_count=chance.choice((3, 12, 60)))
        seal(history.log)
        history.now_ms += chance.choice((0, 100, DELETE_RETENTION_MS))
        buffer_bytes = chance.choice((3_000, 1 << 20))
        done = compact(history.log, cleaned_end_offset=cleaned_end, now_ms=history.now_ms, buffer_bytes=buffer_bytes)
        if isinstance(done, CleaningDone):
            assert cleaned_end <= done.cleaned_end_offset <= history.log.last_stable_offset(history.log.log_end_offset)
            cleaned_end = done.cleaned_end_offset
        check(history, first_seen_ms, cleaned_end, history.now_ms)
        check_producers(history)
        match chance.randrange(3):
            case 0:
                history.log.close()
                history.log = open_log(disk, COMPACTED, clean_shutdown=True)
            case 1:
                for snapshot in history.log.snapshots.offsets:
                    disk.remove(history.log.snapshots.path(snapshot))
                history.log = open_log(disk, COMPACTED)  # As if everything had to be recovered, from the first offset.
                history.log.flush()
        check(history, first_seen_ms, cleaned_end, history.now_ms)
        check_producers(history)
