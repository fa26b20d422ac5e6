from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.directories import decide_assign_replicas_to_dirs
from ottla.wire import api
from tests.unit.metadata.cluster import DIRECTORY_ID, apply, image_of, partition_of, topic_records

Request = api.AssignReplicasToDirsRequest
ORDERS_ID, SSD = UUID(int=101), UUID(int=31)


def decide(image, *, broker=2, epoch=7, topic_id=ORDERS_ID, number=0, directory=SSD):
    topic = Request.TopicData(topic_id=topic_id, partitions=[Request.PartitionData(partition_index=number)])
    directories = [Request.DirectoryData(id=directory, topics=[topic])]
    return decide_assign_replicas_to_dirs(image, Request(broker_id=broker, broker_epoch=epoch, directories=directories))


def cluster():
    return image_of(*topic_records("orders", replicas=(1, 2)), brokers=3)


def code(decision):
    answer = decision.reply.directories[0].topics[0].partitions[0]
    return ErrorCode(answer.error_code).name


def test_a_broker_tells_where_its_replica_is():
    image = cluster()
    decision = decide(image)
    apply(image, decision)
    assert code(decision) == "NONE"
    assert partition_of(image).directories == (DIRECTORY_ID, SSD)
    assert partition_of(image).leader_epoch == 0


def test_what_is_known_is_not_recorded_again():
    decision = decide(cluster(), directory=DIRECTORY_ID)
    assert (code(decision), decision.records) == ("NONE", [])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"topic_id": UUID(int=9)}, "UNKNOWN_TOPIC_ID"),
        ({"number": 5}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"broker": 3}, "NOT_LEADER_OR_FOLLOWER"),
    ],
)
def test_only_replicas_of_the_broker_are_assigned(changes, expected):
    decision = decide(cluster(), **changes)
    assert (code(decision), decision.records) == (expected, [])


def test_an_older_incarnation_is_refused():
    with pytest.raises(ApiError) as refused:
        decide(cluster(), epoch=6)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
