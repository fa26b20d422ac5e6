"""Driver of confluent-kafka, and through it of librdkafka.

Keys go by murmur2_random, librdkafka's name for the Java client's hash; its own default is another hash (configs.md).
"""

import sys
import time
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.conformance.drivers.confluent_members import Groups
from tests.conformance.drivers.confluent_transactions import Transactions
from tests.conformance.drivers.confluent_users import Users
from tests.conformance.drivers.loop import UNKNOWN_CODE, KafkaRefusal, refusal, serve, to_bytes, to_text

BOOTSTRAP = sys.argv[1]
TIMEOUT_S = 30
NO_SUCH_TOPIC = 3
SETTING_NAMES = {
    "bootstrap": "bootstrap.servers",
    "acks": "acks",
    "compression": "compression.type",
    "idempotence": "enable.idempotence",
    "linger_ms": "linger.ms",
    "batch_bytes": "batch.size",
    "max_request_bytes": "message.max.bytes",
    "in_flight": "max.in.flight",
    "request_timeout_ms": "socket.timeout.ms",
    "isolation": "isolation.level",
    "reset": "auto.offset.reset",
}
# Reconnect and retry soon: tests cut connections often, and librdkafka would wait longer each time.
IMPATIENT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 10}
URL_SAFE = str.maketrans("+/", "-_")  # Kafka writes a topic id in URL-safe base64, librdkafka in the other one.
AT = {"earliest": OffsetSpec.earliest(), "latest": OffsetSpec.latest(), "max_timestamp": OffsetSpec.max_timestamp()}

admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
producers: dict[str, Producer] = {}
consumers: dict[str, Consumer] = {}


def configuration(settings: dict[str, Any]) -> dict[str, Any]:
    named = {SETTING_NAMES[name]: value for name, value in settings.items() if name != "raw"}
    if settings.get("reset") == "none":
        named["auto.offset.reset"] = "error"  # librdkafka's word for it
    return {"bootstrap.servers": BOOTSTRAP, **named, **settings.get("raw", {})}


def code_of(error: BaseException) -> int:
    if isinstance(error, SystemError) and error.__cause__ is not None:
        return code_of(error.__cause__)  # A producer's fatal error, out of whichever call came next.
    if isinstance(error, KafkaException):
        return int(error.args[0].code())
    return int(error.code()) if hasattr(error, "code") else UNKNOWN_CODE


def open_producer(name: str | None, settings: dict[str, Any]) -> Producer:
    if name is None or name not in producers:
        producer = Producer({"partitioner": "murmur2_random", **IMPATIENT, **configuration(settings)})
        if name is None:
            return producer
        producers[name] = producer
    return producers[name]


def produce(topic: str, records: list[dict[str, Any]], producer: str | None = None, **settings: Any) -> list[Any]:
    client = open_producer(producer, settings)
    outcomes: list[Any] = [None] * len(records)

    def on_delivery(index: int) -> Any:
        def delivered(error: Any, message: Any) -> None:
            outcomes[index] = (
                refusal(KafkaException(error), code_of)
                if error
                else {"partition": message.partition(), "offset": message.offset(), "timestamp": message.timestamp()[1]}
            )

        return delivered

    for index, record in enumerate(records):
        arguments: dict[str, Any] = {"on_delivery": on_delivery(index), "value": to_bytes(record["value"])}
        if record["partition"] is not None:
            arguments["partition"] = record["partition"]
        if record["timestamp"] is not None:
            arguments["timestamp"] = record["timestamp"]
        if record["headers"]:
            arguments["headers"] = [(name, to_bytes(value)) for name, value in record["headers"]]
        try:
            client.produce(topic, key=to_bytes(record["key"]), **arguments)
        except KafkaException as error:
            outcomes[index] = refusal(error, code_of)
        client.poll(0)
    left = client.flush(TIMEOUT_S)
    if left:
        raise TimeoutError(f"{left} records undelivered")
    return outcomes


def open_consumer(name: str | None, settings: dict[str, Any]) -> Consumer:
    consumer = Consumer(
        {
            # librdkafka asks for a group's name even of a reader of assigned partitions; nothing is ever committed.
            "group.id": "assigned-only",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "error",
            **configuration(settings),
        }
    )
    if name is not None:
        consumers[name] = consumer
    return consumer


def fetch(
    topic: str,
    partition: int,
    offset: int,
    count: int,
    wait_ms: int,
    consumer: str | None = None,
    **settings: Any,
) -> list[Any]:
    known = consumers.get(consumer or "")
    client = known or open_consumer(consumer, settings)
    if known is None:
        client.assign([TopicPartition(topic, partition, offset)])
    found: list[Any] = []
    deadline = time.monotonic() + wait_ms / 1000
    try:
        while len(found) < count and (left_s := deadline - time.monotonic()) > 0:
            message = client.poll(left_s)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.retriable() or (known and error.code() == NO_SUCH_TOPIC):
                    continue
                raise KafkaException(error)
            found.append(described(message))
    finally:
        if consumer is None:
            client.close()
    return found


def described(message: Any) -> dict[str, Any]:
    kind, timestamp = message.timestamp()
    return {
        "offset": message.offset(),
        "timestamp": timestamp,
        "timestamp_type": {1: "CreateTime", 2: "LogAppendTime"}.get(kind),
        "key": to_text(message.key()),
        "value": to_text(message.value()),
        "headers": [[name, to_text(value)] for name, value in message.headers() or []],
    }


def list_offsets(topic: str, partition: int, at: str | int) -> dict[str, Any]:
    spec = AT[at] if isinstance(at, str) else OffsetSpec.for_timestamp(at)
    [future] = admin.list_offsets({TopicPartition(topic, partition): spec}).values()
    result = future.result(TIMEOUT_S)
    return {"offset": result.offset, "timestamp": result.timestamp}


def create_topic(name: str, partitions: int, replication: int, configs: dict[str, str], validate_only: bool) -> None:
    new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=configs)
    admin.create_topics([new], validate_only=validate_only)[name].result(TIMEOUT_S)


def delete_topic(name: str) -> None:
    admin.delete_topics([name])[name].result(TIMEOUT_S)


def create_partitions(name: str, total: int) -> None:
    admin.create_partitions([NewPartitions(name, total)])[name].result(TIMEOUT_S)


def list_topics() -> list[str]:
    return list(admin.list_topics(timeout=TIMEOUT_S).topics)


def describe_topic(name: str) -> dict[str, Any]:
    topic = admin.describe_topics(TopicCollection([name]))[name].result(TIMEOUT_S)
    return {
        "name": topic.name,
        "id": str(topic.topic_id).translate(URL_SAFE),
        "partitions": [
            {
                "index": part.id,
                "leader": part.leader.id,
                "replicas": [n.id for n in part.replicas],
                "isr": [n.id for n in part.isr],
            }
            for part in topic.partitions
        ],
    }


def request_metadata(topic: str) -> dict[str, Any]:
    found = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    if found.error is not None:
        raise KafkaRefusal(found.error.code(), found.error.str())
    return {"partitions": len(found.partitions)}


def describe_configs(kind: str, name: str) -> dict[str, Any]:
    [future] = admin.describe_configs([ConfigResource(kind, name)]).values()
    return {
        key: {"value": entry.value, "read_only": entry.is_read_only, "default": entry.is_default}
        for key, entry in future.result(TIMEOUT_S).items()
    }


def change_configs(kind: str, name: str, changes: list[list[Any]]) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType[op]) for op, key, value in changes]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    [future] = admin.incremental_alter_configs([resource]).values()
    future.result(TIMEOUT_S)


def replace_configs(kind: str, name: str, configs: dict[str, str]) -> None:
    [future] = admin.alter_configs([ConfigResource(kind, name, set_config=configs)]).values()
    future.result(TIMEOUT_S)


def delete_records(topic: str, partition: int, before: int) -> int:
    [future] = admin.delete_records([TopicPartition(topic, partition, before)]).values()
    return int(future.result(TIMEOUT_S).low_watermark)


def describe_cluster() -> dict[str, Any]:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller.id,
        "brokers": [{"id": node.id, "host": node.host, "port": node.port} for node in cluster.nodes],
    }


def close(name: str) -> None:
    producers.pop(name, None)
    if (consumer := consumers.pop(name, None)) is not None:
        consumer.close()


groups = Groups(BOOTSTRAP, admin, code_of)
transactions = Transactions(BOOTSTRAP, admin, producers, groups.group_metadata)
users = Users(admin, code_of)

OPERATIONS = (
    {
        operation.__name__: operation
        for operation in (
            produce,
            fetch,
            list_offsets,
            create_topic,
            delete_topic,
            create_partitions,
            list_topics,
            describe_topic,
            request_metadata,
            describe_configs,
            change_configs,
            replace_configs,
            delete_records,
            describe_cluster,
            close,
        )
    }
    | groups.operations()
    | transactions.operations()
    | users.operations()
)

if __name__ == "__main__":
    version = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
    serve("confluent-kafka", version, OPERATIONS, code_of)
