"""An image written out as records: replaying them into an empty image gives the same image. Snapshots hold these.

The order is Kafka's: features (metadata.version first), brokers, controllers, topics with their partitions,
configurations, producer ids, SCRAM credentials.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.metadata.features import METADATA_VERSION
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import BrokerImage, ControllerImage, PartitionImage, TopicImage
from ottla.metadata.records import MetadataRecord
from ottla.metadata.scram import ScramCredential, ScramIdentity
from ottla.wire import api


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    for name, level in sorted(image.features.items(), key=lambda item: (item[0] != METADATA_VERSION, item[0])):
        yield api.FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield _broker_record(broker)
    for controller in image.controllers.values():
        yield _controller_record(controller)
    for topic in image.topics.values():
        yield api.TopicRecord(name=topic.name, topic_id=topic.id)
        for number, partition in topic.partitions.items():
            yield _partition_record(topic, number, partition)
    for resource, texts in image.configs.items():
        for name, value in texts.items():
            yield api.ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    if image.next_producer_id > 0:
        yield api.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    for identity, credential in image.scram_credentials.items():
        yield scram_record(identity, credential)


def scram_record(identity: ScramIdentity, credential: ScramCredential) -> api.UserScramCredentialRecord:
    return api.UserScramCredentialRecord(
        name=identity.user,
        mechanism=identity.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _partition_record(topic: TopicImage, number: int, partition: PartitionImage) -> api.PartitionRecord:
    return api.PartitionRecord(
        partition_id=number,
        topic_id=topic.id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _broker_record(broker: BrokerImage) -> api.RegisterBrokerRecord:
    return api.RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            api.RegisterBrokerRecord.BrokerEndpoint(
                name=item.name, host=item.host, port=item.port, security_protocol=item.security_protocol
            )
            for item in broker.endpoints
        ],
        features=[
            api.RegisterBrokerRecord.BrokerFeature(
                name=name, min_supported_version=item.min_version, max_supported_version=item.max_version
            )
            for name, item in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_directories),
    )


def _controller_record(controller: ControllerImage) -> api.RegisterControllerRecord:
    return api.RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        end_points=[
            api.RegisterControllerRecord.ControllerEndpoint(
                name=item.name, host=item.host, port=item.port, security_protocol=item.security_protocol
            )
            for item in controller.endpoints
        ],
        features=[
            api.RegisterControllerRecord.ControllerFeature(
                name=name, min_supported_version=item.min_version, max_supported_version=item.max_version
            )
            for name, item in controller.features.items()
        ],
    )
