"""Registration and fencing, and what they mean for the partitions."""

from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.brokers import (
    decide_fence_broker,
    decide_register_broker,
    decide_register_controller,
    decide_unfence_broker,
)
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image_parts import Endpoint
from ottla.wire import api
from tests.unit.metadata.cluster import apply, broker_record, image_of, topic_records

Request = api.BrokerRegistrationRequest


def registration(broker_id=1, features=SUPPORTED_FEATURES):
    return Request(
        broker_id=broker_id,
        incarnation_id=UUID(int=77),
        listeners=[Request.Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        features=[
            Request.Feature(name=name, min_supported_version=one.min_version, max_supported_version=one.max_version)
            for name, one in features.items()
        ],
        rack="a",
        log_dirs=[UUID(int=5)],
    )


def partition_of(image, name="orders"):
    return image.topics[name].partitions[0]


def test_a_broker_registers_fenced_with_the_offset_as_its_epoch():
    image = image_of(brokers=0)
    decision = decide_register_broker(image, registration())
    assert decision.reply == image.offset + 1
    apply(image, decision)
    broker = image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack) == (decision.reply, True, "a")
    assert broker.endpoint("PLAINTEXT") == Endpoint("PLAINTEXT", "h", 9092, 0)
    assert broker.endpoint("OTHER") is None


def test_a_new_registration_has_a_greater_epoch():
    image = image_of(brokers=0)
    first = decide_register_broker(image, registration())
    apply(image, first)
    assert decide_register_broker(image, registration()).reply > first.reply


def test_a_broker_that_cannot_follow_the_clusters_features_is_refused():
    with pytest.raises(ApiError, match="broker 1 supports 0 to 0") as refused:
        decide_register_broker(image_of(brokers=0), registration(features={}))
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_unfencing_after_a_clean_stop_changes_no_partition():
    image = image_of(broker_record(1, fenced=True), *topic_records("orders"), brokers=0)
    decision = decide_unfence_broker(image, 1, 7, new_leader_epochs=False)
    apply(image, decision)
    assert not image.brokers[1].fenced
    assert partition_of(image).leader_epoch == 0


def test_unfencing_after_a_crash_starts_a_new_leader_epoch():
    image = image_of(broker_record(1, fenced=True), *topic_records("orders"), brokers=0)
    apply(image, decide_unfence_broker(image, 1, 7, new_leader_epochs=True))
    assert (partition_of(image).leader, partition_of(image).leader_epoch) == (1, 1)


def test_fencing_moves_the_leader_within_the_isr():
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=2)
    apply(image, decide_fence_broker(image, 1, 7))
    assert (partition_of(image).leader, partition_of(image).isr, partition_of(image).leader_epoch) == (2, (2,), 1)


def test_the_last_in_sync_replica_stays_in_the_isr_and_leads_again_when_it_is_back():
    image = image_of(*topic_records("orders"))
    apply(image, decide_fence_broker(image, 1, 7))
    assert (partition_of(image).leader, partition_of(image).isr) == (-1, (1,))
    apply(image, decide_unfence_broker(image, 1, 7, new_leader_epochs=False))
    assert (partition_of(image).leader, partition_of(image).leader_epoch) == (1, 2)


def test_fencing_a_follower_only_shrinks_the_isr():
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=2)
    apply(image, decide_fence_broker(image, 2, 7))
    assert (partition_of(image).leader, partition_of(image).isr, partition_of(image).leader_epoch) == (1, (1,), 0)


@pytest.mark.parametrize(
    ("broker", "epoch", "code"), [(9, 7, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, 6, ErrorCode.STALE_BROKER_EPOCH)]
)
def test_only_the_registered_epoch_is_fenced_or_unfenced(broker, epoch, code):
    for decide in (decide_fence_broker, lambda *key: decide_unfence_broker(*key, new_leader_epochs=False)):
        with pytest.raises(ApiError) as refused:
            decide(image_of(), broker, epoch)
        assert refused.value.code is code


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
