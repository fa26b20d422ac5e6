"""What `Admin` makes of answers about the quorum, disks and moves."""

from uuid import UUID

from ottla.base.types import TopicPartition
from ottla.client.admin_cluster import by_topic, log_directory, quorum_state
from ottla.wire import api

Replica = api.DescribeQuorumResponse.ReplicaState


def quorum(*, leader: int = 1) -> api.DescribeQuorumResponse.PartitionData:
    return api.DescribeQuorumResponse.PartitionData(
        leader_id=leader,
        leader_epoch=4,
        high_watermark=90,
        current_voters=[
            Replica(replica_id=2, log_end_offset=95, last_caught_up_timestamp=9_400, replica_directory_id=UUID(int=2)),
            Replica(replica_id=1, log_end_offset=100, last_caught_up_timestamp=10_000),
        ],
        observers=[Replica(replica_id=3, log_end_offset=-1, last_caught_up_timestamp=-1)],
    )


def test_lag_is_counted_from_the_leaders_end_and_by_its_clock() -> None:
    state = quorum_state(quorum())
    assert [(voter.id, voter.lag, voter.caught_up_ms_ago) for voter in state.voters] == [(1, 0, 0), (2, 5, 600)]
    assert state.voters[1].directory_id == UUID(int=2)
    assert [(each.id, each.lag, each.caught_up_ms_ago) for each in state.observers] == [(3, 100, None)]
    assert (state.leader, state.leader_epoch, state.high_watermark) == (1, 4, 90)


def test_no_leader_is_none() -> None:
    assert quorum_state(quorum(leader=-1)).leader is None


def test_a_log_directory_tells_its_error_by_name_and_what_an_old_broker_leaves_out() -> None:
    kind = api.DescribeLogDirsResponse
    sizes = [
        kind.DescribeLogDirsPartition(partition_index=0, partition_size=7),
        kind.DescribeLogDirsPartition(partition_index=1, partition_size=9, is_future_key=True),
    ]
    found = kind.DescribeLogDirsResult(
        log_dir="/d",
        error_code=56,
        total_bytes=-1,
        usable_bytes=-1,
        topics=[kind.DescribeLogDirsTopic(name="t", partitions=sizes)],
    )
    directory = log_directory(found)
    assert (directory.error, directory.total_bytes, directory.used_share) == ("KAFKA_STORAGE_ERROR", None, None)
    assert directory.sizes == {TopicPartition("t", 0): 7}


def test_partitions_are_grouped_by_topic_in_order() -> None:
    a0, a1, b0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
    assert by_topic([b0, a1, a0]) == {"a": [a0, a1], "b": [b0]}
