"""Right after a leader has died its successor knows less than it has: nobody takes that for all there is."""

import struct

import pyarrow as pa
import pytest

from ottla.base.types import TopicPartition
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.fetching import PartitionReader
from ottla.spark.decisions import TOPIC, Decision, DecisionLog
from ottla.spark.offset_ranges import OffsetRange
from ottla.spark.range_reading import read_range
from ottla.spark.sink_connections import connections_of
from ottla.spark.sink_options import SinkOptions
from ottla.spark.source_options import SourceOptions
from ottla.wire.records import BatchBuilder, ControlType, end_transaction_marker
from tests.unit.client.new_leader import NewLeader

VALUES = [b"one", b"two"]


@pytest.fixture
def leader() -> NewLeader:
    builder = BatchBuilder()
    for value in VALUES:
        builder.append(0, None, value)
    return NewLeader("orders", bytes(builder.build()), len(VALUES))


def test_the_end_is_told_once_it_is_known(leader: NewLeader) -> None:
    def end(bootstrap_servers: str) -> int:
        with Cluster(bootstrap_servers, client_id="test", timeout_s=10) as cluster:
            partition = TopicPartition("orders", 0)
            return PartitionReader(cluster, partition, read_committed=True, fetch_bytes=1 << 20).end_offset()

    assert leader.answer(end) == len(VALUES)


@pytest.mark.parametrize("fails_on_loss", ["true", "false"])
def test_a_task_waits_for_records_that_are_not_known_to_be_committed_yet(leader: NewLeader, fails_on_loss: str) -> None:
    def rows(bootstrap_servers: str) -> list[bytes]:
        given = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": "orders", "failOnDataLoss": fails_on_loss}
        wanted = OffsetRange(partition=TopicPartition("orders", 0), start=0, end=len(VALUES))
        schema = pa.schema([pa.field("value", pa.binary())])
        found = read_range(SourceOptions.parse(given, streaming=True), schema, wanted)
        return [value for batch in found for value in batch["value"].to_pylist()]

    assert leader.answer(rows) == VALUES


def test_a_decision_is_found_though_it_is_not_known_to_be_committed_yet() -> None:
    decided = Decision(query_id="query", run_id="run", batch_id=5)
    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    builder.append(0, b"query", decided.to_bytes())
    marker = end_transaction_marker(
        ControlType.COMMIT, coordinator_epoch=0, producer_id=7, producer_epoch=0, timestamp=0
    )
    struct.pack_into(">q", marker, 0, 1)  # Its offset.
    leader = NewLeader(TOPIC, bytes(builder.build() + marker), end_offset=2)

    def read(bootstrap_servers: str) -> Decision | None:
        options = SinkOptions.parse({"kafka.bootstrap.servers": bootstrap_servers})
        return DecisionLog(connections_of(options)).read("query")

    assert leader.answer(read) == decided
