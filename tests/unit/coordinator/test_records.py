"""Coordinator records as bytes: what is encoded by hand is what the codecs encode."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla.base.types import ZERO_TOPIC_ID
from ottla.coordinator.groups.group_records import offset_record, offset_tombstone
from ottla.coordinator.records import GROUP_RECORDS, CommittedOffset
from ottla.wire import api
from ottla.wire.codec import codec_for

names = st.text(st.characters(codec="utf-8"), max_size=20)
numbers = st.integers(-(2**63), 2**63 - 1)


@given(
    group=names,
    topic=names,
    partition=st.integers(0, 2**31 - 1),
    offset=numbers,
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.just("") | names,
    commit_timestamp=numbers,
    expire_timestamp=st.just(-1) | st.integers(0, 2**40),
    topic_id=st.just(ZERO_TOPIC_ID) | st.uuids(),
)
def test_a_commit_is_encoded_as_its_codecs_would(
    group: str, topic: str, partition: int, topic_id: UUID, **fields: object
) -> None:
    record = offset_record(group, topic, partition, CommittedOffset(topic_id=topic_id, **fields))  # type: ignore[arg-type]
    key, value = GROUP_RECORDS.encode(record)
    key_message = api.OffsetCommitKey(group=group, topic=topic, partition=partition)
    assert key == b"\0\1" + codec_for(api.OffsetCommitKey, 0).encode(key_message)
    version, value_message = record.value_version, api.OffsetCommitValue(topic_id=topic_id, **fields)
    assert value == version.to_bytes(2) + codec_for(api.OffsetCommitValue, version).encode(value_message)


def test_a_tombstone_has_the_key_of_what_it_deletes() -> None:
    key, value = GROUP_RECORDS.encode(offset_tombstone("g", "t", 3))
    assert value is None
    assert key == GROUP_RECORDS.encode(offset_record("g", "t", 3, CommittedOffset(1, 1, "", 1)))[0]
