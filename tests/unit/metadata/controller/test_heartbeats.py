"""Heartbeats as a conversation: what a broker says, what it is told, what becomes of its partitions."""

from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.electorate import NO_STATIC_CONFIGS
from ottla.metadata.controller.heartbeats import decide_heartbeat
from ottla.metadata.controller.sessions import BrokerSessions
from ottla.wire import api
from tests.unit.metadata.cluster import apply, broker_record, image_of, orders, replay, shown, topic_records


class Cluster:
    """Three brokers; `heartbeat` is what a handler does."""

    def __init__(self, *records):
        self.image = image_of(*records, brokers=3)
        self.sessions = BrokerSessions(9000)

    def heartbeat(self, broker_id, *, epoch=7, offset=None, **wants):
        offset = max(self.image.offset, epoch) if offset is None else offset
        request = api.BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=offset, **wants
        )
        self.sessions.on_heartbeat(self.image, request, 0)
        decision = decide_heartbeat(self.image, request, self.sessions, static_configs=NO_STATIC_CONFIGS)
        if decision.records:
            apply(self.image, decision)
        reply = decision.reply
        told = {"caught up": reply.is_caught_up, "fenced": reply.is_fenced, "stop": reply.should_shut_down}
        return [name for name, holds in told.items() if holds]


def test_a_fenced_broker_is_unfenced_once_it_knows_of_its_registration():
    cluster = Cluster(broker_record(1, fenced=True))
    assert cluster.image.offset < 7
    assert cluster.heartbeat(1, offset=6) == ["fenced"]
    assert cluster.heartbeat(1, offset=7) == ["caught up"]


def test_a_fenced_broker_is_unfenced_once_it_knows_that_it_was_fenced():
    cluster = Cluster(*orders((1,), leader=-1, isr=[], eligible_leader_replicas=[1]), broker_record(1, fenced=True))
    fenced_at = cluster.image.offset
    assert cluster.heartbeat(1, offset=fenced_at - 1) == ["caught up", "fenced"], "it may believe to lead still"
    replay(cluster.image, broker_record(3, fenced=True))
    assert cluster.heartbeat(1, offset=fenced_at) == ["caught up"]
    assert shown(cluster.image) == "1 | 1 | -"


def test_a_fenced_broker_that_wants_to_stay_so_does():
    cluster = Cluster(broker_record(1, fenced=True))
    assert cluster.heartbeat(1, want_fence=True) == ["caught up", "fenced"]


def test_a_heartbeat_without_news_records_nothing():
    cluster = Cluster(*topic_records("orders"))
    before = cluster.image.offset
    assert cluster.heartbeat(1) == ["caught up"]
    assert cluster.image.offset == before


def test_a_broker_may_have_itself_fenced():
    cluster = Cluster(*topic_records("orders", replicas=(1, 2)))
    assert cluster.heartbeat(1, want_fence=True) == ["caught up", "fenced"]
    assert shown(cluster.image) == "2 | 2 | -"


def test_an_older_incarnation_is_told_so():
    with pytest.raises(ApiError) as refused:
        Cluster().heartbeat(1, epoch=6)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


# ---- controlled shutdown ----


def test_leaders_are_moved_first_and_everybody_hears_of_it_before_the_broker_may_stop():
    cluster = Cluster(*topic_records("orders", replicas=(1, 2, 3)))
    assert cluster.heartbeat(1, want_shut_down=True) == ["caught up"]
    assert shown(cluster.image) == "2 | 2 3 | -"
    assert cluster.image.brokers[1].in_controlled_shutdown
    assert cluster.heartbeat(1, want_shut_down=True) == ["caught up"]
    cluster.heartbeat(2)
    assert cluster.heartbeat(1, want_shut_down=True) == ["caught up"]
    cluster.heartbeat(3)
    assert cluster.heartbeat(1, want_shut_down=True) == ["caught up", "fenced", "stop"]
    assert cluster.image.brokers[1].fenced


def test_a_broker_that_leads_nothing_stops_at_once():
    cluster = Cluster(*topic_records("orders", replicas=(2, 1, 3)))
    assert cluster.heartbeat(1, want_shut_down=True) == ["caught up", "fenced", "stop"]
    assert shown(cluster.image) == "2 | 2 3 | -"


def test_a_fenced_broker_stops_at_once():
    cluster = Cluster(broker_record(1, fenced=True))
    assert cluster.heartbeat(1, want_shut_down=True) == ["caught up", "fenced", "stop"]


def test_a_broker_alone_stops_at_once_and_keeps_its_partitions():
    cluster = Cluster(*topic_records("orders"))
    cluster.image = image_of(*topic_records("orders"))
    before = cluster.image.offset
    assert cluster.heartbeat(1, want_shut_down=True) == ["caught up", "fenced", "stop"]
    assert shown(cluster.image) == "1 | 1 | -"
    assert cluster.image.offset == before


def test_the_only_replica_goes_and_its_partition_waits_for_it():
    cluster = Cluster(*topic_records("orders"))
    cluster.heartbeat(1, want_shut_down=True)
    assert shown(cluster.image) == "- | - | 1"


def test_who_was_fenced_on_its_way_out_does_not_come_back_but_stops():
    cluster = Cluster(*orders((1,), leader=-1, isr=[], eligible_leader_replicas=[1]))
    replay(cluster.image, broker_record(1, fenced=True, in_controlled_shutdown=True))
    assert cluster.heartbeat(1) == ["caught up", "fenced", "stop"]
    assert shown(cluster.image) == "- | - | 1"


def test_after_a_new_controller_took_over_the_broker_still_gets_to_stop():
    cluster = Cluster(*topic_records("orders", replicas=(1, 2, 3)))
    cluster.heartbeat(1, want_shut_down=True)
    cluster.sessions = BrokerSessions(9000)
    assert cluster.heartbeat(1, want_shut_down=True) == ["caught up"]
    cluster.heartbeat(2)
    cluster.heartbeat(3)
    assert cluster.heartbeat(1, want_shut_down=True) == ["caught up", "fenced", "stop"]


# ---- directories ----

SSD, DISK = UUID(int=31), UUID(int=32)


def test_a_directory_that_fails_gives_up_its_replicas_and_no_others():
    cluster = Cluster(
        *orders((1, 2, 3), directories=[SSD, UUID(int=4711), UUID(int=4711)]),
        *topic_records("bills", number=2, replicas=(1, 2)),
        broker_record(1, log_dirs=[SSD, DISK, UUID(int=4711)]),
    )
    cluster.heartbeat(1, offline_log_dirs=[SSD])
    assert shown(cluster.image) == "2 | 2 3 | -"
    assert shown(cluster.image, "bills") == "1 | 1 2 | -"
    assert cluster.image.brokers[1].log_directories == (DISK, UUID(int=4711))
    before = cluster.image.offset
    cluster.heartbeat(1, offline_log_dirs=[SSD])
    assert cluster.image.offset == before


def test_a_replica_in_a_failed_directory_is_not_elected_even_when_alone():
    cluster = Cluster(*orders((1,), directories=[SSD]), broker_record(1, log_dirs=[SSD, DISK]))
    cluster.heartbeat(1, offline_log_dirs=[SSD])
    assert shown(cluster.image) == "- | - | 1"
    replay(cluster.image, broker_record(1, fenced=True, log_dirs=[DISK]))
    cluster.heartbeat(1)
    assert shown(cluster.image) == "- | - | 1"
    replay(cluster.image, broker_record(1, fenced=True, log_dirs=[DISK, SSD]))
    cluster.heartbeat(1)
    assert shown(cluster.image) == "1 | 1 | -"


def one_directory_each(*partitions):
    return Cluster(*partitions, *(broker_record(one, log_dirs=[UUID(int=one)]) for one in (1, 2, 3)))


IN_THEIR_DIRECTORIES = {"directories": [UUID(int=1), UUID(int=2), UUID(int=3)]}


def test_a_broker_that_takes_no_writes_leaves_isrs_to_others_until_it_does():
    cluster = one_directory_each(*orders((1, 2, 3), **IN_THEIR_DIRECTORIES))
    assert cluster.heartbeat(1, offline_log_dirs=[UUID(int=1)]) == ["caught up"]
    assert shown(cluster.image) == "2 | 2 3 | -"
    assert cluster.sessions.refusing_ids == {1}
    before = cluster.image.offset
    cluster.heartbeat(1, offline_log_dirs=[UUID(int=1)])
    assert cluster.image.offset == before
    cluster.heartbeat(1)
    assert cluster.sessions.refusing_ids == set()
    assert cluster.image.brokers[1].log_directories == (UUID(int=1),)


def test_a_broker_that_takes_no_writes_keeps_what_nobody_else_can_lead():
    cluster = one_directory_each(*orders((1, 2, 3), isr=[1], **IN_THEIR_DIRECTORIES))
    cluster.heartbeat(1, offline_log_dirs=[UUID(int=1)])
    assert shown(cluster.image) == "1 | 1 | -"


def test_nobody_hands_over_to_another_who_takes_no_writes():
    cluster = one_directory_each(*orders((1, 2), directories=[UUID(int=1), UUID(int=2)]))
    cluster.heartbeat(2, offline_log_dirs=[UUID(int=2)])
    assert shown(cluster.image) == "1 | 1 | -"
    replay(cluster.image, api.PartitionChangeRecord(partition_id=0, topic_id=UUID(int=101), isr=[1, 2]))
    cluster.heartbeat(1, offline_log_dirs=[UUID(int=1)])
    assert shown(cluster.image) == "1 | 1 2 | -"
