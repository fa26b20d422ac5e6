"""Registration and fencing, and what they mean for the partitions."""

from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.brokers import (
    decide_fence_broker,
    decide_register_broker,
    decide_register_controller,
    decide_unfence_broker,
    decide_unregister_broker,
)
from ottla.metadata.controller.electorate import NO_STATIC_CONFIGS
from ottla.metadata.controller.partition_changes import RecoveryState
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image_parts import Endpoint
from ottla.wire import api
from tests.unit.metadata.cluster import (
    apply,
    broker_record,
    image_of,
    orders,
    partition_of,
    replay,
    shown,
    topic_records,
)

Request = api.BrokerRegistrationRequest


OWN = [broker_record(one, log_dirs=[UUID(int=10 + one)]) for one in (1, 2, 3)]
"""Brokers with a directory each."""
LYING = {"directories": [UUID(int=11), UUID(int=12), UUID(int=13)]}
"""Their replicas."""


def registration(broker_id=1, *, features=SUPPORTED_FEATURES, incarnation=77, **changes):
    facts = {
        "broker_id": broker_id,
        "incarnation_id": UUID(int=incarnation),
        "listeners": [Request.Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        "features": [
            Request.Feature(name=name, min_supported_version=one.min_version, max_supported_version=one.max_version)
            for name, one in features.items()
        ],
        "rack": "a",
        "log_dirs": [UUID(int=5)],
    }
    return Request(**{**facts, **changes})


def refused(code, decide, *arguments, **options):
    with pytest.raises(ApiError) as refusal:
        decide(*arguments, **options)
    assert refusal.value.code is code
    return refusal.value.message


def unfence(image, broker_id):
    apply(image, decide_unfence_broker(image, broker_id, image.brokers[broker_id].epoch))


# ---- registration ----


def test_a_broker_registers_fenced_with_the_offset_as_its_epoch():
    image = image_of(brokers=0)
    decision = decide_register_broker(image, registration())
    assert decision.reply == image.offset + 1
    apply(image, decision)
    broker = image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack) == (decision.reply, True, "a")
    assert broker.endpoint("PLAINTEXT") == Endpoint("PLAINTEXT", "h", 9092, 0)
    assert broker.endpoint("OTHER") is None


def test_a_new_incarnation_has_a_greater_epoch():
    image = image_of(brokers=0)
    first = decide_register_broker(image, registration())
    apply(image, first)
    assert decide_register_broker(image, registration(incarnation=78)).reply > first.reply


def test_the_same_incarnation_keeps_its_epoch_and_its_state():
    image = image_of(
        broker_record(1, incarnation_id=UUID(int=77)), *topic_records("orders", replicas=(1, 2)), brokers=2
    )
    decision = decide_register_broker(image, registration(rack="b"), is_alive=True)
    apply(image, decision)
    assert (decision.reply, image.brokers[1].rack, image.brokers[1].fenced) == (7, "b", False)
    assert shown(image) == "1 | 1 2 | -"


def test_a_broker_that_cannot_follow_the_clusters_features_is_refused():
    text = refused(
        ErrorCode.UNSUPPORTED_VERSION, decide_register_broker, image_of(brokers=0), registration(features={})
    )
    assert "broker 1 supports 0 to 0" in text


def test_a_broker_of_another_cluster_is_refused():
    request = registration(cluster_id="theirs")
    refused(ErrorCode.INCONSISTENT_CLUSTER_ID, decide_register_broker, image_of(), request, cluster_id="ours")


def test_a_second_broker_with_the_same_id_is_refused_while_the_first_is_alive():
    image = image_of(brokers=2)
    refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, decide_register_broker, image, registration(), is_alive=True)
    assert decide_register_broker(image, registration(), is_alive=False).reply == image.offset + 1


def test_a_broker_that_was_fenced_or_shut_down_may_be_followed_at_once():
    for state in ({"fenced": True}, {"in_controlled_shutdown": True}):
        image = image_of(broker_record(1, **state), brokers=2)
        assert decide_register_broker(image, registration(), is_alive=True).reply == image.offset + 1


@pytest.mark.parametrize("log_dirs", [[], [UUID(int=6), UUID(int=6)], [UUID(int=6), UUID(int=4711)]])
def test_a_broker_has_log_directories_of_its_own_each_named_once(log_dirs):
    request = registration(9, log_dirs=log_dirs)
    refused(ErrorCode.INVALID_REGISTRATION, decide_register_broker, image_of(), request)


# ---- a new incarnation and its partitions (KIP-966) ----


def test_after_a_clean_shutdown_a_broker_stays_eligible():
    image = image_of(*orders((1, 2, 3), min_isr=2, isr=[1], eligible_leader_replicas=[2], **LYING), *OWN, brokers=3)
    decision = decide_register_broker(image, registration(1, log_dirs=[UUID(int=11)], previous_broker_epoch=7))
    apply(image, decision)
    assert shown(image) == "2 | 2 | 1"
    assert decision.reply == image.offset == image.brokers[1].epoch


def test_with_another_directory_a_clean_shutdown_says_nothing():
    image = image_of(*orders((1, 2, 3), min_isr=2, isr=[1], eligible_leader_replicas=[2], **LYING), *OWN, brokers=3)
    apply(image, decide_register_broker(image, registration(1, log_dirs=[UUID(int=99)], previous_broker_epoch=7)))
    assert shown(image) == "2 | 2 | -"


def test_a_broker_whose_disk_was_replaced_may_lead_again():
    image = image_of(*orders((1, 2), directories=[UUID(int=11), UUID(int=12)]), *OWN, brokers=3)
    replaced = registration(1, log_dirs=[UUID(int=99)])
    apply(image, decide_register_broker(image, replaced))
    unfence(image, 1)
    assert partition_of(image).directories == (UUID(int=99), UUID(int=12))
    replay(image, api.PartitionChangeRecord(partition_id=0, topic_id=image.topics["orders"].id, isr=[2, 1]))
    apply(image, decide_fence_broker(image, 2, 7))
    assert shown(image) == "1 | 1 | -"


def test_the_only_copy_does_not_lead_when_its_disk_was_replaced():
    image = image_of(*orders((1,), directories=[UUID(int=11)]), *OWN, brokers=3)
    apply(image, decide_register_broker(image, registration(1, log_dirs=[UUID(int=99)])))
    unfence(image, 1)
    assert shown(image) == "- | - | -"


@pytest.mark.parametrize("previous_broker_epoch", [-1, 6])
def test_without_the_epoch_of_its_shutdown_a_broker_leaves_every_isr_and_every_elr(previous_broker_epoch):
    image = image_of(
        *orders((1, 2, 3), min_isr=2, isr=[2], leader=2, eligible_leader_replicas=[1]),
        *topic_records("bills", number=2, replicas=(1, 2, 3)),
        brokers=3,
    )
    request = registration(1, log_dirs=[UUID(int=99)], previous_broker_epoch=previous_broker_epoch)
    apply(image, decide_register_broker(image, request))
    assert shown(image) == "2 | 2 | -"
    assert shown(image, "bills") == "2 | 2 3 | -"


def test_a_broker_that_was_unregistered_comes_back_as_one_that_lost_everything():
    image = image_of(*orders((1, 2, 3), min_isr=2, isr=[2], leader=2, eligible_leader_replicas=[1]), brokers=3)
    unregister = api.UnregisterBrokerRequest(broker_id=1)
    apply(image, decide_unregister_broker(image, unregister, static_configs=NO_STATIC_CONFIGS))
    assert shown(image) == "2 | 2 | 1"
    request = registration(1, log_dirs=[UUID(int=99)], previous_broker_epoch=7)
    apply(image, decide_register_broker(image, request))
    assert shown(image) == "2 | 2 | -"


def test_a_broker_alone_keeps_its_partitions():
    image = image_of(*topic_records("orders"))
    apply(image, decide_register_broker(image, registration(log_dirs=[UUID(int=4711)])))
    assert shown(image) == "1 | 1 | -"


def test_the_only_copy_leads_again_though_its_broker_crashed():
    image = image_of(*orders((1,)), broker_record(1, log_dirs=[UUID(int=99), UUID(int=4711)]), brokers=3)
    replay(image, *(broker_record(other, log_dirs=[UUID(int=other)]) for other in (2, 3)))
    apply(image, decide_register_broker(image, registration(1, log_dirs=[UUID(int=4711)])))
    assert shown(image) == "- | - | -"
    unfence(image, 1)
    assert shown(image) == "1 | 1 | -"
    assert partition_of(image).leader_recovery_state == RecoveryState.RECOVERING


# ---- fencing ----


def test_fencing_moves_the_leader_within_the_isr():
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=2)
    apply(image, decide_fence_broker(image, 1, 7))
    assert shown(image) == "2 | 2 | -"
    assert partition_of(image).leader_epoch == 1


def test_fencing_a_follower_only_shrinks_the_isr():
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=2)
    apply(image, decide_fence_broker(image, 2, 7))
    assert shown(image) == "1 | 1 | -"
    assert partition_of(image).leader_epoch == 0


def test_fencing_touches_only_the_partitions_of_the_broker():
    image = image_of(
        *topic_records("orders", replicas=(1, 2)), *topic_records("bills", number=2, replicas=(2, 3)), brokers=3
    )
    decision = decide_fence_broker(image, 1, 7)
    assert [type(record).__name__ for record in decision.records] == [
        "PartitionChangeRecord", "BrokerRegistrationChangeRecord"]  # fmt: skip
    assert decision.records[0].topic_id == image.topics["orders"].id


def test_new_leaders_come_before_smaller_isrs():
    image = image_of(
        *topic_records("orders", replicas=(2, 1)), *topic_records("bills", number=2, replicas=(1, 2)), brokers=2
    )
    records = decide_fence_broker(image, 1, 7).records
    assert [record.leader for record in records[:-1]] == [2, -2]


def test_one_after_the_other_three_brokers_go_and_the_last_to_lead_leads_again():
    image = image_of(*topic_records("orders", replicas=(1, 2, 3)), brokers=3)
    seen = []
    for broker_id in (1, 2, 3):
        apply(image, decide_fence_broker(image, broker_id, 7))
        seen.append(shown(image))
    assert seen == ["2 | 2 3 | -", "3 | 3 | 2", "- | - | 2 3"]
    unfence(image, 1)
    assert shown(image) == "- | - | 2 3"
    unfence(image, 2)
    assert shown(image) == "2 | 2 | 3"


def test_a_fenced_broker_that_is_back_takes_over_where_nobody_leads():
    image = image_of(*topic_records("orders"))
    apply(image, decide_fence_broker(image, 1, 7))
    assert shown(image) == "- | - | 1"
    unfence(image, 1)
    assert shown(image) == "1 | 1 | -"
    assert partition_of(image).leader_epoch == 2


def test_a_partition_without_a_leader_from_before_eligible_replicas_gets_one():
    image = image_of(broker_record(1, fenced=True), *orders((1,), leader=-1), brokers=0)
    unfence(image, 1)
    assert shown(image) == "1 | 1 | -"


@pytest.mark.parametrize(("previous_broker_epoch", "leader_epoch"), [(7, 0), (-1, 1), (6, 1)])
def test_a_broker_alone_starts_new_epochs_only_after_a_crash(previous_broker_epoch, leader_epoch):
    image = image_of(*topic_records("orders"))
    request = registration(log_dirs=[UUID(int=4711)], previous_broker_epoch=previous_broker_epoch)
    decision = decide_register_broker(image, request)
    apply(image, decision)
    assert decision.reply == image.offset
    unfence(image, 1)
    assert shown(image) == "1 | 1 | -"
    assert partition_of(image).leader_epoch == leader_epoch


@pytest.mark.parametrize(("broker", "epoch"), [(9, 7), (1, 6)])
def test_only_the_registered_epoch_is_fenced_or_unfenced(broker, epoch):
    for decide in (decide_fence_broker, decide_unfence_broker):
        refused(ErrorCode.STALE_BROKER_EPOCH, decide, image_of(), broker, epoch)


# ---- unregistration ----


def test_an_unregistered_broker_is_gone_and_its_replicas_stay_assigned():
    image = image_of(*topic_records("orders", replicas=(1, 2, 3)), brokers=3)
    request = api.UnregisterBrokerRequest(broker_id=1)
    apply(image, decide_unregister_broker(image, request, static_configs=NO_STATIC_CONFIGS))
    assert list(image.brokers) == [2, 3]
    assert shown(image) == "2 | 2 3 | -"
    assert partition_of(image).replicas == (1, 2, 3)


def test_who_is_not_registered_cannot_be_unregistered():
    request = api.UnregisterBrokerRequest(broker_id=9)
    refused(
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        decide_unregister_broker,
        image_of(),
        request,
        static_configs=NO_STATIC_CONFIGS,
    )


def test_a_controller_registers():
    image = image_of()
    request = api.ControllerRegistrationRequest(
        controller_id=1,
        listeners=[api.ControllerRegistrationRequest.Listener(name="CONTROLLER", host="h", port=9093)],
        features=[
            api.ControllerRegistrationRequest.Feature(
                name="metadata.version", min_supported_version=25, max_supported_version=29
            )
        ],
    )
    apply(image, decide_register_controller(image, request))
    assert image.controllers[1].endpoints == (Endpoint("CONTROLLER", "h", 9093, 0),)
    assert image.controllers[1].features["metadata.version"] == (25, 29)
