"""What became of the records of one `ottla produce`: counted by librdkafka's delivery reports, per partition."""

from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, Message


@dataclass(slots=True, kw_only=True)
class PartitionDeliveries:
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1

    def count(self, offset: int) -> None:
        self.records += 1
        # acks=0 tells no offset (-1); with retries, reports of one partition still come in order.
        self.first_offset = offset if self.first_offset < 0 else min(self.first_offset, offset)
        self.last_offset = max(self.last_offset, offset)


@dataclass(slots=True, kw_only=True)
class Deliveries:
    partitions: dict[int, PartitionDeliveries] = field(default_factory=dict)
    value_bytes: int = 0
    failed: int = 0
    first_error: KafkaError | None = None

    def report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or error
            return
        self.value_bytes += len(message)
        partition = message.partition() or 0
        deliveries = self.partitions.get(partition)
        if deliveries is None:
            deliveries = self.partitions[partition] = PartitionDeliveries()
        deliveries.count(message.offset() or 0)

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions.values())

    def documents(self) -> list[dict[str, Any]]:
        return [
            {"partition": partition, "records": each.records, "first": each.first_offset, "last": each.last_offset}
            for partition, each in sorted(self.partitions.items())
        ]
