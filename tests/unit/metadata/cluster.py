"""A small cluster made of records: what the tests of decisions and handlers start from."""

from collections.abc import Callable, Sequence
from itertools import count
from uuid import UUID

from ottla.metadata.bootstrap import bootstrap_records
from ottla.metadata.controller.decision import ControllerSettings, Decision
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import MetadataBatch, MetadataImage
from ottla.metadata.image_parts import PartitionImage
from ottla.metadata.metadata_log import CommitFailed
from ottla.wire import api

NOW_MS = 1_750_000_000_000
DIRECTORY_ID = UUID(int=4711)


def numbered_uuids() -> Callable[[], UUID]:
    numbers = count(1000)
    return lambda: UUID(int=next(numbers))


def settings(**changes: object) -> ControllerSettings:
    return ControllerSettings(**{"node_id": 1, "new_uuid": numbered_uuids(), **changes})


def broker_record(broker_id: int = 1, **changes: object) -> api.RegisterBrokerRecord:
    facts = {
        "broker_id": broker_id,
        "incarnation_id": UUID(int=broker_id + 500),
        "broker_epoch": 7,
        "end_points": [
            api.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host=f"host-{broker_id}", port=9092),
            api.RegisterBrokerRecord.BrokerEndpoint(name="OUTSIDE", host=f"outside-{broker_id}", port=19092),
        ],
        "features": [
            api.RegisterBrokerRecord.BrokerFeature(
                name=name, min_supported_version=one.min_version, max_supported_version=one.max_version
            )
            for name, one in SUPPORTED_FEATURES.items()
        ],
        "rack": None,
        "fenced": False,
        "log_dirs": [DIRECTORY_ID],
    }
    return api.RegisterBrokerRecord(**{**facts, **changes})


def topic_records(name: str, *, number: int = 1, partitions: int = 1, replicas: Sequence[int] = (1,)) -> list[object]:
    return [
        api.TopicRecord(name=name, topic_id=UUID(int=number + 100)),
        *(partition_record(replicas, number=number, partition=partition) for partition in range(partitions)),
    ]


def partition_record(
    replicas: Sequence[int], *, number: int = 1, partition: int = 0, **changes: object
) -> api.PartitionRecord:
    """A partition of the topic that `topic_records` gives this number; in sync and led by the first unless changed."""
    facts = {
        "partition_id": partition,
        "topic_id": UUID(int=number + 100),
        "replicas": list(replicas),
        "isr": list(replicas),
        "leader": replicas[0],
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [DIRECTORY_ID] * len(replicas),
    }
    return api.PartitionRecord(**{**facts, **changes})


def orders(replicas: Sequence[int], *, min_isr: int = 1, unclean: bool = False, **changes: object) -> list[object]:
    """Topic orders with one partition."""
    configs = {"min.insync.replicas": str(min_isr), "unclean.leader.election.enable": str(unclean).lower()}
    return [
        api.TopicRecord(name="orders", topic_id=UUID(int=101)),
        *(api.ConfigRecord(resource_type=2, resource_name="orders", name=k, value=v) for k, v in configs.items()),
        partition_record(replicas, **changes),
    ]


def partition_of(image: MetadataImage, name: str = "orders", number: int = 0) -> PartitionImage:
    return image.topics[name].partitions[number]


def shown(image: MetadataImage, name: str = "orders", number: int = 0) -> str:
    """`2 | 2 3 | 1`: the leader, the ISR, the eligible leader replicas; nobody is `-`."""
    partition = partition_of(image, name, number)
    leader = () if partition.leader == -1 else (partition.leader,)
    parts = (leader, partition.isr, partition.eligible_leader_replicas)
    return " | ".join(" ".join(map(str, ids)) or "-" for ids in parts)


def image_of(*records: object, brokers: int = 1) -> MetadataImage:
    """Features, that many brokers, then `records`."""
    image = MetadataImage()
    replay(image, *bootstrap_records(), *(broker_record(number + 1) for number in range(brokers)), *records)
    image.take_delta()
    return image


def replay(image: MetadataImage, *records: object) -> None:
    last_offset = image.offset + max(1, len(records))
    image.replay_batch(MetadataBatch(records, last_offset, 1, NOW_MS))


def apply(image: MetadataImage, decision: Decision[object]) -> None:
    replay(image, *decision.records)


class FakeMetadataLog:
    """Appends at once; commits at once, later, or never, as a test says."""

    def __init__(self, first_offset: int = 0) -> None:
        self.next_offset = first_offset
        self.batches: list[MetadataBatch] = []
        self.commit_error: str | None = None
        self.append_error: OSError | None = None
        self.gate: Callable[[int], object] | None = None

    def append(self, records: Sequence[object]) -> MetadataBatch:
        if self.append_error is not None:
            raise self.append_error
        self.next_offset += len(records)
        batch = MetadataBatch(records, self.next_offset - 1, 1, NOW_MS)
        self.batches.append(batch)
        return batch

    async def committed(self, offset: int) -> None:
        if self.gate is not None:
            await self.gate(offset)
        if self.commit_error is not None:
            raise CommitFailed(self.commit_error)
