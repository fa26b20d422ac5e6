"""What the active controller notices by itself, and what it grants; in virtual time."""

from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.raft.lease import SilentLeader
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.controlled_cluster import CLUSTER_ID, play
from tests.unit.metadata.cluster import broker_record, orders, topic_records

SESSION_SECONDS = 9


def registration(broker_id, incarnation=900, **changes):
    request = api.BrokerRegistrationRequest
    facts = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=incarnation),
        "features": [
            request.Feature(name=name, min_supported_version=one.min_version, max_supported_version=one.max_version)
            for name, one in SUPPORTED_FEATURES.items()
        ],
        "log_dirs": [UUID(int=9000 + broker_id)],
        "previous_broker_epoch": 7,
    }
    return request(**{**facts, **changes})


async def refusal(asking):
    with pytest.raises(ApiError) as refused:
        await asking
    return refused.value.code


# ---- brokers that are gone ----


def test_a_silent_broker_is_fenced_when_its_session_ends():
    async def scene(cluster):
        cluster.controller.take_over()
        await cluster.pass_seconds(SESSION_SECONDS - 0.2, 1, 3)
        assert cluster.fenced == []
        await cluster.pass_seconds(1, 1, 3)
        assert cluster.fenced == [2]
        assert cluster.shown() == "1 | 1 3 | -"

    play(scene, *topic_records("orders", replicas=(2, 1, 3)))


def test_a_silent_controller_is_fenced_when_the_session_ends_that_it_had_with_itself():
    async def scene(cluster):
        await cluster.pass_seconds(10)
        now_ms = int(cluster.world.clock.monotonic() * 1000)
        cluster.leadership.silent_leader = SilentLeader(2, now_ms - 2000)
        cluster.controller.take_over()
        await cluster.pass_seconds(SESSION_SECONDS - 2.2, 1)
        assert cluster.fenced == []
        await cluster.pass_seconds(1, 1)
        assert cluster.fenced == [2]
        await cluster.pass_seconds(2, 1)
        assert cluster.fenced == [2, 3]

    play(scene)


def test_a_controller_that_may_have_a_successor_prolongs_nobodys_lease():
    async def scene(cluster):
        cluster.controller.take_over()
        cluster.leadership.is_followed = False
        assert await refusal(cluster.heartbeat(2)) is ErrorCode.NOT_CONTROLLER

    play(scene)


def test_several_silent_brokers_are_fenced_together():
    async def scene(cluster):
        cluster.controller.take_over()
        await cluster.pass_seconds(SESSION_SECONDS + 1, 3)
        assert cluster.fenced == [1, 2]
        assert cluster.shown().startswith("3 | 3 | ")

    play(scene, *orders((2, 1, 3), min_isr=2))


def test_a_killed_process_is_fenced_at_once():
    async def scene(cluster):
        cluster.controller.take_over()
        assert cluster.peers.watched == [2, 3]
        await cluster.pass_seconds(1, 1, 2, 3)
        cluster.peers.kill(2)
        await cluster.pass_seconds(0.1)
        assert cluster.fenced == [2]
        assert cluster.shown() == "1 | 1 3 | -"
        assert cluster.peers.watched == [3]

    play(scene, *topic_records("orders", replicas=(2, 1, 3)))


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_lost_connection_alone_fences_nobody(is_silent):
    async def scene(cluster):
        cluster.controller.take_over()
        if is_silent:
            cluster.peers.silent.add(2)
        cluster.peers.cut(2)
        await cluster.pass_seconds(2, 1, 2, 3)
        assert cluster.fenced == []
        assert cluster.peers.watched == [2, 3]
        assert cluster.peers.asked == [(2, ApiKey.API_VERSIONS)]
        cluster.peers.kill(2)
        await cluster.pass_seconds(0.1)
        assert cluster.fenced == [2]

    play(scene)


def test_who_takes_over_finds_at_once_who_died_before():
    async def scene(cluster):
        cluster.peers.kill(2)
        cluster.controller.take_over()
        await cluster.pass_seconds(0.1)
        assert cluster.fenced == [2]

    play(scene)


def test_a_broker_that_is_back_is_watched_again():
    async def scene(cluster):
        cluster.controller.take_over()
        cluster.peers.kill(2)
        await cluster.pass_seconds(0.1)
        cluster.peers.gone.clear()
        epoch = await cluster.controller.register_broker(registration(2))
        assert cluster.peers.watched == [3]
        assert not (await cluster.heartbeat(2)).is_fenced
        assert cluster.image.brokers[2].epoch == epoch
        assert cluster.peers.watched == [2, 3]

    play(scene)


@pytest.mark.parametrize("is_refused_first", [False, True])
def test_a_death_is_known_when_nobody_listens_and_nothing_is_open_in_any_order(is_refused_first):
    async def scene(cluster):
        cluster.controller.take_over()
        lifeline = cluster.call_from(2)
        if is_refused_first:
            cluster.peers.kill(2)
            await cluster.pass_seconds(0.1)
            assert cluster.fenced == []
            lifeline.cut()
        else:
            lifeline.cut()
            cluster.peers.kill(2)
        await cluster.pass_seconds(0.1)
        assert cluster.fenced == [2]

    play(scene)


def test_a_living_broker_behind_a_firewall_that_refuses_is_not_fenced_until_it_dies(caplog):
    async def scene(cluster):
        cluster.controller.take_over()
        await cluster.pass_seconds(1, 1, 2, 3)
        heartbeats, _ = cluster.call_from(2), cluster.call_from(3)
        settled_at = cluster.image.offset
        cluster.peers.kill(2)  # Its address: the process goes on.
        await cluster.pass_seconds(5, 1, 2, 3)
        fetches = cluster.call_from(2, ApiKey.FETCH)
        heartbeats.cut()  # Given up, to be made anew.
        await cluster.pass_seconds(5, 1, 2, 3)
        assert cluster.image.offset == settled_at  # Not even for a moment.
        assert [record.args[0] for record in caplog.records if "is alive" in record.message] == [2]
        fetches.cut()
        await cluster.pass_seconds(0.1)
        assert cluster.fenced == [2]

    play(scene)


def test_who_is_let_through_again_is_watched_again():
    async def scene(cluster):
        cluster.controller.take_over()
        lifeline = cluster.call_from(2)
        cluster.peers.kill(2)
        await cluster.pass_seconds(1, 1, 2, 3)
        cluster.peers.gone.clear()
        lifeline.cut()
        await cluster.pass_seconds(1, 1, 2, 3)
        assert cluster.fenced == []
        assert cluster.peers.watched == [2, 3]

    play(scene)


def test_a_living_broker_that_cannot_be_connected_to_is_left_to_its_heartbeats(caplog):
    async def scene(cluster):
        cluster.controller.take_over()
        cluster.peers.kill(2)  # Its address: the process goes on.
        await cluster.pass_seconds(5, 1, 2, 3)
        assert cluster.fenced == []
        settled_at = cluster.image.offset
        await cluster.pass_seconds(5, 1, 2, 3)
        assert cluster.image.offset == settled_at
        assert [record.args[0] for record in caplog.records if "is alive" in record.message] == [2]
        await cluster.pass_seconds(SESSION_SECONDS + 1, 1, 3)
        assert cluster.fenced == [2]

    play(scene)


@pytest.mark.parametrize(
    ("broker_count", "recorded", "expected"),
    [
        (0, None, "1"),
        (1, None, "1"),
        (1, "3", "3"),
        (2, None, None),  # One that takes over must not change what others have promised.
    ],
)
def test_the_founders_min_isr_is_that_of_the_cluster_unless_there_is_one(broker_count, recorded, expected):
    async def scene(cluster):
        cluster.controller.take_over()
        await cluster.pass_seconds(0.1)
        assert cluster.image.configs_of(4, "").get("min.insync.replicas") == expected

    name = "min.insync.replicas"
    records = [api.ConfigRecord(resource_type=4, resource_name="", name=name, value=recorded)] if recorded else []
    play(scene, *records, brokers=broker_count, min_insync_replicas="1")


def test_a_commit_that_fails_is_tried_again_by_the_next_look():
    async def scene(cluster):
        cluster.controller.take_over()
        cluster.log.append_error = OSError("no space")
        await cluster.pass_seconds(SESSION_SECONDS + 1, 1, 3)
        assert cluster.fenced == []
        cluster.log.append_error = None
        await cluster.pass_seconds(1, 1, 3)
        assert cluster.fenced == [2]

    play(scene)


def test_who_stepped_down_fences_nobody_and_answers_nobody():
    async def scene(cluster):
        cluster.controller.take_over()
        cluster.controller.step_down()
        assert cluster.peers.watched == []
        cluster.peers.kill(2)
        await cluster.pass_seconds(2 * SESSION_SECONDS)
        assert cluster.fenced == []
        assert await refusal(cluster.heartbeat(1)) is ErrorCode.NOT_CONTROLLER
        assert await refusal(cluster.controller.register_broker(registration(2))) is ErrorCode.NOT_CONTROLLER
        cluster.controller.step_down()
        cluster.controller.take_over()
        await cluster.pass_seconds(0.1)
        assert cluster.fenced == [2]

    play(scene)


def test_no_chore_outlives_an_office_that_ends_within_it(caplog):
    async def scene(cluster):
        append = cluster.log.append

        def append_and_lose(records):
            cluster.log.append = append
            cluster.runtime.resign()
            cluster.controller.step_down()
            return append(records)

        cluster.controller.take_over()
        await cluster.pass_seconds(1, 1)
        cluster.log.append = append_and_lose
        with pytest.raises(ApiError):
            await cluster.pass_seconds(SESSION_SECONDS, 1)
        caplog.clear()
        await cluster.pass_seconds(SESSION_SECONDS)
        assert [record.message for record in caplog.records] == []

    caplog.set_level("INFO")
    play(scene)


# ---- registration ----


def test_a_second_process_with_the_same_id_is_refused_while_the_first_is_heard():
    async def scene(cluster):
        cluster.controller.take_over()
        await cluster.heartbeat(2)
        refused = await refusal(cluster.controller.register_broker(registration(2)))
        assert refused is ErrorCode.DUPLICATE_BROKER_REGISTRATION

    play(scene)


def test_a_process_started_anew_need_not_wait_for_the_old_session():
    async def scene(cluster):
        cluster.controller.take_over()
        await cluster.heartbeat(2)
        cluster.peers.cut(2)  # And the new process answers the probe.
        await cluster.pass_seconds(0.1)
        assert await cluster.controller.register_broker(registration(2)) == cluster.image.offset

    play(scene)


def test_the_controllers_own_broker_need_not_wait_for_itself():
    async def scene(cluster):
        cluster.controller.take_over()
        await cluster.heartbeat(1)
        assert await cluster.controller.register_broker(registration(1)) == cluster.image.offset

    play(scene)


def test_a_broker_of_another_cluster_is_refused():
    async def scene(cluster):
        cluster.controller.take_over()
        refused = await refusal(cluster.controller.register_broker(registration(2, cluster_id="theirs")))
        assert refused is ErrorCode.INCONSISTENT_CLUSTER_ID

    play(scene)


# ---- leaders ----

NOBODY_LEFT = {"leader": -1, "isr": [], "min_isr": 2, "last_known_elr": [1, 2]}


def test_the_longest_of_the_last_logs_leads_once_all_are_back():
    async def scene(cluster):
        cluster.peers.log_ends.update({(1, "orders", 0): (3, 90), (2, "orders", 0): (4, 80)})
        cluster.controller.take_over()
        await cluster.pass_seconds(1, 1, 3)
        assert cluster.shown() == "- | - | -"
        await cluster.heartbeat(2)
        await cluster.pass_seconds(0.1)
        assert cluster.shown() == "2 | 2 | -"

    play(scene, *orders((1, 2, 3), **NOBODY_LEFT), broker_record(2, fenced=True))


def test_nobody_leads_while_one_of_the_last_logs_is_not_known():
    async def scene(cluster):
        cluster.peers.log_ends[1, "orders", 0] = (3, 90)
        cluster.controller.take_over()
        await cluster.pass_seconds(5, 1, 2, 3)
        assert cluster.shown() == "- | - | -"
        cluster.peers.log_ends[2, "orders", 0] = (3, 91)
        await cluster.pass_seconds(2, 1, 2, 3)
        assert cluster.shown() == "2 | 2 | -"

    play(scene, *orders((1, 2, 3), **NOBODY_LEFT))


def test_what_a_predecessor_left_without_a_leader_gets_one():
    async def scene(cluster):
        assert cluster.shown() == "- | - | 2"
        cluster.controller.take_over()
        await cluster.pass_seconds(0.1)
        assert cluster.shown() == "2 | 2 | -"

    play(scene, *orders((1, 2), leader=-1, isr=[], eligible_leader_replicas=[2]))


def test_an_unclean_election_takes_place_when_it_is_allowed_and_is_counted(caplog):
    async def scene(cluster):
        cluster.controller.take_over()
        await cluster.pass_seconds(1, 1, 2)
        assert cluster.shown() == "- | - | 3"
        record = api.ConfigRecord(
            resource_type=2, resource_name="orders", name="unclean.leader.election.enable", value="true"
        )
        await cluster.record(record)
        assert cluster.controller.unclean_election_count == 0
        await cluster.pass_seconds(0.1, 1, 2)
        assert cluster.shown() == "1 | 1 | -"
        assert cluster.controller.unclean_election_count == 1
        assert "unclean elections: 1 partitions are led by replicas that may lack" in caplog.text
        await cluster.controller.elect_leaders(api.ElectLeadersRequest(topic_partitions=None))
        assert cluster.controller.unclean_election_count == 1

    lost = orders((1, 2, 3), leader=-1, isr=[], eligible_leader_replicas=[3])
    play(scene, *lost, broker_record(3, fenced=True))


@pytest.mark.parametrize("is_heard_first", [True, False])
def test_what_was_on_a_replaced_disk_alone_begins_empty_once_that_is_allowed_and_is_told(caplog, is_heard_first):
    """Also where the controller that was told of it knows nothing yet of the broker's disks."""

    async def scene(cluster):
        cluster.controller.take_over()
        await cluster.pass_seconds(1, *([1, 2] if is_heard_first else [1]))
        assert cluster.shown() == "- | - | -"
        record = api.ConfigRecord(
            resource_type=2, resource_name="orders", name="unclean.leader.election.enable", value="true"
        )
        await cluster.record(record)
        await cluster.pass_seconds(0.5, 1, 2)
        assert (cluster.shown(), cluster.controller.unclean_election_count) == ("2 | 2 | -", 1)
        assert "1 of them begin empty, all they held is lost with a disk that was replaced: orders-0" in caplog.text

    lost = orders((2,), leader=-1, isr=[], last_known_elr=[2], directories=[UUID(int=31)])
    play(scene, *lost, brokers=2)


@pytest.mark.parametrize(("is_enabled", "expected"), [("true", "1 | 1 2 | -"), ("false", "2 | 1 2 | -")])
def test_leaders_go_back_to_the_preferred_replicas_in_time(is_enabled, expected):
    async def scene(cluster):
        cluster.controller.take_over()
        await cluster.pass_seconds(9, 1, 2, 3)
        assert cluster.shown() == "2 | 1 2 | -"
        await cluster.pass_seconds(2, 1, 2, 3)
        assert cluster.shown() == expected

    options = {"auto_leader_rebalance_enable": is_enabled, "leader_imbalance_check_interval_seconds": "10"}
    play(scene, *orders((1, 2), leader=2), **options)


# ---- what is asked for ----


def test_what_is_asked_for_is_decided():
    async def scene(cluster):
        cluster.controller.take_over()
        elected = await cluster.controller.elect_leaders(api.ElectLeadersRequest(topic_partitions=None))
        assert [topic.topic for topic in elected.replica_election_results] == ["orders"]
        wanted = api.AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=[1, 3])
        topic = api.AlterPartitionReassignmentsRequest.ReassignableTopic(name="orders", partitions=[wanted])
        await cluster.controller.alter_reassignments(api.AlterPartitionReassignmentsRequest(topics=[topic]))
        request = api.ListPartitionReassignmentsRequest(topics=None)
        (moving,) = (await cluster.controller.list_reassignments(request)).topics
        assert moving.partitions[0].adding_replicas == [3]
        await cluster.controller.unregister_broker(api.UnregisterBrokerRequest(broker_id=2))
        assert list(cluster.image.brokers) == [1, 3]
        block = await cluster.controller.allocate_producer_ids(
            api.AllocateProducerIdsRequest(broker_id=1, broker_epoch=7)
        )
        assert block == (0, 1000)
        await cluster.controller.register_controller(api.ControllerRegistrationRequest(controller_id=1))
        assert list(cluster.image.controllers) == [1]

    play(scene, *orders((1, 2), leader=2))
