"""A small cluster made of records: what the tests of decisions and handlers start from."""

from collections.abc import Callable, Sequence
from itertools import count
from uuid import UUID

from ottla.metadata.bootstrap import bootstrap_records
from ottla.metadata.controller.decision import ControllerSettings, Decision
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import MetadataBatch, MetadataImage
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
    topic_id = UUID(int=number + 100)
    return [
        api.TopicRecord(name=name, topic_id=topic_id),
        *(
            api.PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=list(replicas),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[DIRECTORY_ID] * len(replicas),
            )
            for partition in range(partitions)
        ),
    ]


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
