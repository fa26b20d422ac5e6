"""Seeking by time (scene 4) and the late event of producer B (scene 22)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.config import LogConfig
from ottla.log.timestamp_lookup import TimestampedOffset
from ottla.wire.records import Codec
from tests.unit.log.support import NOW_MS, append, batch_of, headers_of, new_disk, open_log

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=6), min_size=1, max_size=40),
    st.sampled_from([Codec.NONE, Codec.GZIP]),
    st.integers(0, 60),
)
def test_scene_4_the_first_offset_at_or_after_a_time(history: list[list[int]], codec: Codec, start: int) -> None:
    """CreateTime in any order, in several segments, from any log start on."""
    disk = new_disk()
    log = open_log(disk, CONFIG)
    for timestamps in history:
        append(log, batch_of(len(timestamps), timestamps=[NOW_MS + each for each in timestamps], codec=codec))
    flat = [NOW_MS + timestamp for timestamps in history for timestamp in timestamps]
    start = min(start, len(flat))
    log.delete_records_before(start)
    log.close()
    reopened = open_log(disk, CONFIG, clean_shutdown=True, log_start_offset=start)
    for wanted in sorted({*flat, NOW_MS - 1, NOW_MS + 150, NOW_MS + 301}):
        expected = next((offset for offset in range(start, len(flat)) if flat[offset] >= wanted), None)
        for each in (log, reopened):
            found = each.offset_for_timestamp(wanted)
            assert (found.offset if found else None) == expected
            assert found is None or found.timestamp == flat[found.offset]


def test_the_record_with_the_largest_timestamp() -> None:
    log = open_log(new_disk(), CONFIG)
    assert log.offset_of_max_timestamp() is None
    for timestamps in ([5, 9, 1], [9, 2], [7]):
        append(log, batch_of(len(timestamps), timestamps=[NOW_MS + each for each in timestamps]), leader_epoch=3)
    assert log.offset_of_max_timestamp() == TimestampedOffset(1, NOW_MS + 9, 3)


def test_scene_22_a_late_event_is_stored_by_arrival_with_its_own_time() -> None:
    log = open_log(new_disk())
    append(log, batch_of(timestamp=NOW_MS))  # Producer A
    append(log, batch_of(timestamp=NOW_MS - 60_000))  # Producer B, a minute late
    append(log, batch_of(timestamp=NOW_MS + 1))
    stored = [(header.base_offset, header.max_timestamp) for header in headers_of(log)]
    assert stored == [(0, NOW_MS), (1, NOW_MS - 60_000), (2, NOW_MS + 1)]
    found = log.offset_for_timestamp(NOW_MS - 60_000)
    assert found is not None and found.offset == 0, "the first in log order, not in time"
