"""Topics as values, and as the documents that scripts read."""

from uuid import UUID

from ottla.base.types import TopicPartition
from ottla.cli.configs import ConfigEntry, ConfigSource
from ottla.cli.topic_state import PartitionState, TopicState, topic_id_text, topic_state, with_sizes
from ottla.cli.topic_view import partitions_table, summary_document, topics_table
from ottla.client.topics import PartitionInfo, TopicDescription

HEALTHY = PartitionState(
    partition=0, leader=1, replicas=(1, 2), isr=(2, 1), start_offset=5, end_offset=15, size_bytes=99
)
SHRUNK = PartitionState(partition=1, leader=1, replicas=(1, 2), isr=(1,), start_offset=0, end_offset=1, size_bytes=1)
OFFLINE = PartitionState(partition=2, leader=None, replicas=(2, 3), isr=())


def topic(*partitions: PartitionState) -> TopicState:
    return TopicState(name="orders", topic_id="id", is_internal=False, partitions=partitions)


def test_a_topic_adds_up_its_partitions() -> None:
    state = topic(HEALTHY, SHRUNK)
    assert (state.record_count, state.size_bytes, state.replication_factor) == (11, 100, 2)


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    state = topic(HEALTHY, OFFLINE)
    assert state.record_count is None
    assert state.size_bytes is None


def test_trouble_is_counted_by_kind() -> None:
    assert topic(HEALTHY).health == "ok"
    assert topic(HEALTHY, SHRUNK, OFFLINE, OFFLINE).health == "2 offline, 1 under-replicated"


def test_partitions_come_in_order_and_no_leader_is_none() -> None:
    info = [
        PartitionInfo(partition=1, leader=-1, replicas=(1,), in_sync_replicas=(1,)),
        PartitionInfo(partition=0, leader=1, replicas=(1,), in_sync_replicas=(1,)),
    ]
    described = TopicDescription(name="t", topic_id=UUID(int=1), is_internal=True, partitions=tuple(info))
    state = topic_state(described)
    assert [(each.partition, each.leader) for each in state.partitions] == [(0, 1), (1, None)]
    assert state.is_internal


def test_a_topic_id_is_printed_as_kafka_prints_it() -> None:
    assert topic_id_text(UUID("4eeb4b82-8f56-46dc-aab1-130bb0567e7d")) == "TutLgo9WRtyqsRMLsFZ-fQ"


def test_sizes_are_joined_by_partition() -> None:
    [state] = with_sizes([topic(SHRUNK, OFFLINE)], {TopicPartition("orders", 1): 7, TopicPartition("other", 2): 8})
    assert [each.size_bytes for each in state.partitions] == [7, None]


def test_tables_and_documents_show_the_unknown_as_such() -> None:
    assert summary_document(topic(OFFLINE))["records"] is None
    assert topics_table([topic(OFFLINE)]).row_count == 1
    assert partitions_table([HEALTHY, OFFLINE]).row_count == 2


def test_documentation_is_told_without_its_html() -> None:
    entry = ConfigEntry(
        name="a",
        value="1",
        source=ConfigSource.DEFAULT_CONFIG,
        is_read_only=False,
        is_sensitive=False,
        documentation="Set to <code>x</code>\n for <a href='#b'>more</a>. If a < b, wait.",
    )
    assert entry.explanation == "Set to x for more. If a < b, wait."
    assert entry.first_sentence == "Set to x for more"
    assert ConfigSource(77) is ConfigSource.UNKNOWN
