"""A writer that does not retry, so that each answer of the broker is seen: fills disks, and segments to be damaged."""

from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from ottla.testing import Broker
from tests.chaos.checker import Promise, WriterHistory
from tests.chaos.payload import Numbered, encode
from tests.chaos.writers import QUIET

VALUE_BYTES: Final = 20_000
STEP_BYTES: Final = 256 << 10
ANSWER_SECONDS_MAX: Final = 30.0
_LOOSE: Final = Promise(is_idempotent=False, keeps_order=True)


class Filler:
    """Writes numbered records to one topic, some at a time, and waits for their answers."""

    def __init__(self, broker: Broker, topic: str, *, writer: int) -> None:
        self.topic = topic
        self.history = WriterHistory(writer=writer, promise=_LOOSE)
        self._errors: list[KafkaError] = []
        self._producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "retries": 0, "linger.ms": 0, **QUIET}
        )

    def write(self, size_bytes: int = VALUE_BYTES, *, partition: int = 0) -> KafkaError | None:
        """The first error, if any."""
        self._errors.clear()
        for _ in range(max(size_bytes // VALUE_BYTES, 1)):
            self._send(partition)
        assert self._producer.flush(ANSWER_SECONDS_MAX) == 0
        return self._errors[0] if self._errors else None

    def write_bytes(self, size_bytes: int, *, partition: int = 0) -> None:
        for _ in range(size_bytes // STEP_BYTES):
            error = self.write(STEP_BYTES, partition=partition)
            assert error is None, error.str()

    def write_until_refused(self) -> KafkaError:
        """Large steps first, then single records: the last of the room goes too."""
        while self.write(STEP_BYTES) is None:
            pass
        while (error := self.write()) is None:
            pass
        return error

    def _send(self, partition: int) -> None:
        record = self.history.send(partition)

        def on_delivery(error: KafkaError | None, message: Message, record: Numbered = record) -> None:
            offset = message.offset()
            if error is not None:
                self._errors.append(error)
            elif offset is not None:
                self.history.acknowledge(record, offset)

        self._producer.produce(self.topic, encode(record, VALUE_BYTES), partition=partition, on_delivery=on_delivery)
