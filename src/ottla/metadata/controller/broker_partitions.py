"""What becomes of a broker's partitions when it goes, and when it is there again. Looks only at the partitions it holds.

Who goes leaves the ISR and leads no more; below `min.insync.replicas` it stays eligible, unless its copy may have lost
records. Who comes takes the lead where nobody had it. It enters an ISR again when the leader finds it in sync.

A broker alone in its cluster keeps its partitions when it stops and starts: nobody else could take them. If it did not
stop cleanly it starts new leader epochs in them, for readers may know records that it has lost (KIP-101, KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from ottla.base.types import NO_NODE, NodeId
from ottla.metadata.controller.electorate import Electorate, default_directory
from ottla.metadata.controller.partition_changes import change_record, changed_partition
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import UNASSIGNED_DIRECTORY, BrokerImage, PartitionImage, PartitionRef, without
from ottla.metadata.records import MetadataRecord
from ottla.wire import api


def plan_departure(image: MetadataImage, electorate: Electorate, broker_id: NodeId) -> list[MetadataRecord]:
    """The broker keeps its files: where it is eligible it stays so."""
    leaving = [ref for ref in image.partitions_on(broker_id) if broker_id in ref.partition.isr]
    leaving.sort(key=lambda ref: ref.partition.leader != broker_id)  # Clients wait for the new leaders alone.
    return _departures(leaving, electorate, broker_id)


def plan_unclean_departure(image: MetadataImage, electorate: Electorate, broker_id: NodeId) -> list[MetadataRecord]:
    """The broker was not shut down in an orderly way: what it had not synced may be gone (KIP-966)."""
    leaving = [ref for ref in image.partitions_on(broker_id) if broker_id in _complete(ref.partition)]
    return _departures(leaving, electorate, broker_id, is_lost=True)


def plan_offline_directories(
    image: MetadataImage, electorate: Electorate, broker_id: NodeId, offline: Iterable[UUID]
) -> list[MetadataRecord]:
    """`electorate` without the broker: it may lead elsewhere, but none of these."""
    gone = set(offline)
    leaving = [
        ref
        for ref in image.partitions_on(broker_id)
        if broker_id in ref.partition.isr and _directory(ref.partition, broker_id) in gone
    ]
    return _departures(leaving, electorate, broker_id)


def plan_handover(image: MetadataImage, electorate: Electorate, broker_id: NodeId) -> list[MetadataRecord]:
    """Only where another of the ISR may lead: what the broker has alone can at least be read. `electorate` without it."""
    leaving = [
        ref
        for ref in image.partitions_on(broker_id)
        if broker_id in ref.partition.isr and any(electorate.may_lead(ref.partition, one) for one in ref.partition.isr)
    ]
    return _departures(leaving, electorate, broker_id)


def plan_arrival(image: MetadataImage, electorate: Electorate, broker_id: NodeId) -> list[MetadataRecord]:
    broker = image.brokers[broker_id]
    known = {*broker.log_directories, UNASSIGNED_DIRECTORY}
    waiting = [
        ref
        for ref in image.partitions_on(broker_id)
        if ref.partition.leader == NO_NODE or _directory(ref.partition, broker_id) not in known
    ]
    return _records((ref, changed_partition(ref, _found_again(ref.partition, broker), electorate)) for ref in waiting)


def _found_again(partition: PartitionImage, broker: BrokerImage) -> PartitionImage:
    """A copy whose directory is gone begins anew in one that is there; but not one that others still count on."""
    is_last = not _complete(partition) and partition.last_known_elr == (broker.id,)
    if is_last or broker.id in _complete(partition) or _directory(partition, broker.id) in broker.log_directories:
        return partition
    places = dict(zip(partition.replicas, partition.directories, strict=True))
    places[broker.id] = default_directory(broker)
    return partition._replace(directories=tuple(places.values()))


def plan_new_epochs(image: MetadataImage, broker_id: NodeId) -> list[MetadataRecord]:
    return [
        api.PartitionChangeRecord(partition_id=ref.number, topic_id=ref.topic.id, leader=broker_id)
        for ref in image.partitions_on(broker_id)
        if ref.partition.leader == broker_id
    ]


def is_alone(image: MetadataImage, broker_id: NodeId) -> bool:
    return image.brokers.keys() <= {broker_id}


def plan_log_comparison(image: MetadataImage) -> list[PartitionRef]:
    """Partitions that can get a leader from among `last_known_elr`, all of whom are there: whose log is longest?

    Whoever asks these brokers hands their answers in with the decision (`decide_elect_where_leaderless`).
    """
    active = {broker.id for broker in image.brokers.values() if broker.is_active}
    return [
        ref
        for ref in image.partitions_without_leader()
        if len(ref.partition.last_known_elr) > 1
        and active.issuperset(ref.partition.last_known_elr)
        and not _complete(ref.partition)
    ]


def _departures(
    refs: Iterable[PartitionRef], electorate: Electorate, broker_id: NodeId, *, is_lost: bool = False
) -> list[MetadataRecord]:
    lost_by = broker_id if is_lost else NO_NODE
    return _records(
        (ref, changed_partition(ref, _without_in_isr(ref.partition, broker_id), electorate, lost_by=lost_by))
        for ref in refs
    )


def _without_in_isr(partition: PartitionImage, broker_id: NodeId) -> PartitionImage:
    return partition._replace(isr=without(partition.isr, (broker_id,)))


def _records(changes: Iterable[tuple[PartitionRef, PartitionImage]]) -> list[MetadataRecord]:
    return [record for ref, after in changes if (record := change_record(ref, after)) is not None]


def _complete(partition: PartitionImage) -> tuple[NodeId, ...]:
    return (*partition.isr, *partition.eligible_leader_replicas)


def _directory(partition: PartitionImage, broker_id: NodeId) -> UUID:
    return partition.directories[partition.replicas.index(broker_id)]
