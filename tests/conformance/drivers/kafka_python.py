"""Driver of kafka-python: pure Python, its protocol compiled from Kafka's schemas at run time."""

import base64
import re
import sys
import time
import uuid
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, OffsetSpec
from kafka.errors import BrokerResponseError

from tests.conformance.drivers.kafka_python_members import Groups
from tests.conformance.drivers.kafka_python_transactions import Transactions
from tests.conformance.drivers.loop import UNKNOWN_CODE, KafkaRefusal, refusal, serve, to_bytes, to_text

BOOTSTRAP = sys.argv[1]
TIMEOUT_S = 30
NO_SUCH_TOPIC = 3
FAILURE = re.compile(r"\[Error (\d+)\]")  # How alter_configs answers what was refused: as text.
SETTING_NAMES = {
    "bootstrap": "bootstrap_servers",
    "compression": "compression_type",
    "idempotence": "enable_idempotence",
    "linger_ms": "linger_ms",
    "batch_bytes": "batch_size",
    "max_request_bytes": "max_request_size",
    "in_flight": "max_in_flight_requests_per_connection",
    "request_timeout_ms": "request_timeout_ms",
    "isolation": "isolation_level",
    "reset": "auto_offset_reset",
}
AT = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST, "max_timestamp": OffsetSpec.MAX_TIMESTAMP}

admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
producers: dict[str, KafkaProducer] = {}
consumers: dict[str, KafkaConsumer] = {}


def configuration(settings: dict[str, Any]) -> dict[str, Any]:
    named = {SETTING_NAMES[name]: value for name, value in settings.items() if name in SETTING_NAMES}
    if "acks" in settings:
        named["acks"] = "all" if settings["acks"] == "all" else int(settings["acks"])
    if named.get("compression_type") == "none":
        named["compression_type"] = None
    return {"bootstrap_servers": BOOTSTRAP, **named}


def code_of(error: BaseException) -> int:
    return int(error.errno) if isinstance(error, BrokerResponseError) else UNKNOWN_CODE


def produce(topic: str, records: list[dict[str, Any]], producer: str | None = None, **settings: Any) -> list[Any]:
    client = producers.get(producer or "") or KafkaProducer(**configuration(settings))
    if producer is not None:
        producers[producer] = client
    try:
        futures = [
            client.send(
                topic,
                key=to_bytes(record["key"]),
                value=to_bytes(record["value"]),
                headers=[(name, to_bytes(value)) for name, value in record["headers"]],
                partition=record["partition"],
                timestamp_ms=record["timestamp"],
            )
            for record in records
        ]
        client.flush(timeout=TIMEOUT_S)
        return [outcome(future) for future in futures]
    finally:
        if producer is None:
            client.close()


def outcome(future: Any) -> dict[str, Any]:
    try:
        stored = future.get(timeout=TIMEOUT_S)
    except Exception as error:  # One record's outcome is a value; the others still count.
        return refusal(error, code_of)
    return {"partition": stored.partition, "offset": stored.offset, "timestamp": stored.timestamp}


def fetch(
    topic: str, partition: int, offset: int, count: int, wait_ms: int, consumer: str | None = None, **settings: Any
) -> list[Any]:
    where = TopicPartition(topic, partition)
    client = consumers.get(consumer or "")
    if client is None:
        options = {"auto_offset_reset": "none", **configuration(settings)}
        client = KafkaConsumer(group_id=None, enable_auto_commit=False, **options)
        client.assign([where])
        client.seek(where, offset)
        if consumer is not None:
            consumers[consumer] = client
    found: list[Any] = []
    deadline = time.monotonic() + wait_ms / 1000
    try:
        while len(found) < count and (left_s := deadline - time.monotonic()) > 0:
            for records in client.poll(timeout_ms=int(left_s * 1000) + 1, max_records=count - len(found)).values():
                found += [described(record) for record in records]
    finally:
        if consumer is None:
            client.close()
    return found


def described(record: Any) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": {0: "CreateTime", 1: "LogAppendTime"}.get(record.timestamp_type),
        "key": to_text(record.key),
        "value": to_text(record.value),
        "headers": [[name, to_text(value)] for name, value in record.headers],
    }


def list_offsets(topic: str, partition: int, at: str | int) -> dict[str, Any]:
    spec = AT[at] if isinstance(at, str) else at
    [found] = admin.list_partition_offsets({TopicPartition(topic, partition): spec}).values()
    return {"offset": found.offset, "timestamp": found.timestamp}


def create_topic(name: str, partitions: int, replication: int, configs: dict[str, str], validate_only: bool) -> None:
    wanted = {"num_partitions": partitions, "replication_factor": replication, "configs": configs}
    admin.create_topics({name: wanted}, validate_only=validate_only)


def delete_topic(name: str) -> None:
    admin.delete_topics([name])


def create_partitions(name: str, total: int) -> None:
    admin.create_partitions({name: NewPartitions(total)})


def list_topics() -> list[str]:
    return list(admin.list_topics())


def describe_topic(name: str) -> dict[str, Any]:
    [topic] = admin.describe_topics([name])
    if topic["error_code"]:
        raise KafkaRefusal(topic["error_code"])
    return {
        "name": topic["name"],
        "id": uuid_text(topic["topic_id"]),
        "partitions": [
            {
                "index": part["partition_index"],
                "leader": part["leader_id"],
                "replicas": part["replica_nodes"],
                "isr": part["isr_nodes"],
            }
            for part in topic["partitions"]
        ],
    }


def uuid_text(topic_id: str) -> str:
    """Kafka's own way to write one: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid.UUID(topic_id).bytes).decode().rstrip("=")


def request_metadata(topic: str) -> dict[str, Any]:
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)  # Its consumer never asks in a way that creates.
    try:
        return {"partitions": len(producer.partitions_for(topic))}
    finally:
        producer.close()


def resource(kind: str, name: str, configs: dict[str, Any] | None = None) -> ConfigResource:
    return ConfigResource(ConfigResourceType[kind.upper()], name, configs)


def describe_configs(kind: str, name: str) -> dict[str, Any]:
    [named] = admin.describe_configs([resource(kind, name)], config_filter="all").values()
    [entries] = named.values()
    if not entries:  # What it answers for a topic that is not there.
        raise KafkaRefusal(NO_SUCH_TOPIC)
    return {
        key: {
            "value": entry["value"],
            "read_only": entry["read_only"],
            "default": "DEFAULT" in str(entry["config_source"]),
        }
        for key, entry in entries.items()
    }


def change_configs(kind: str, name: str, changes: list[list[Any]]) -> None:
    wanted = resource(kind, name, {key: (op, value) for op, key, value in changes})
    altered(admin.alter_configs([wanted], incremental=True, raise_on_unknown=False))


def replace_configs(kind: str, name: str, configs: dict[str, str]) -> None:
    altered(admin.alter_configs([resource(kind, name, configs)], incremental=False))


def altered(outcome: dict[str, dict[str, Any]]) -> None:
    for named in outcome.values():
        for result in named.values():
            if (failure := FAILURE.match(str(result))) is not None:
                raise KafkaRefusal(int(failure[1]), str(result))


def delete_records(topic: str, partition: int, before: int) -> int:
    [result] = admin.delete_records({TopicPartition(topic, partition): before}).values()
    return int(result["low_watermark"])


def describe_cluster() -> dict[str, Any]:
    cluster = admin.describe_cluster()
    return {
        "cluster_id": cluster["cluster_id"],
        "controller": cluster["controller_id"],
        "brokers": [
            {"id": node.get("broker_id", node.get("node_id")), "host": node["host"], "port": node["port"]}
            for node in cluster["brokers"]
        ],
    }


def describe_log_dirs(topic: str) -> list[dict[str, Any]]:
    return [
        {
            "path": directory["log_dir"],
            "partitions": {
                f"{found['name']}-{part['partition_index']}": part["partition_size"]
                for found in directory["topics"]
                for part in found["partitions"]
            },
        }
        for broker in admin.describe_log_dirs([topic])
        for directory in broker["log_dirs"]
    ]


def close(name: str) -> None:
    for opened in (producers.pop(name, None), consumers.pop(name, None)):
        if opened is not None:
            opened.close()


groups = Groups(BOOTSTRAP, admin, code_of)
transactions = Transactions(BOOTSTRAP, producers, groups.group_metadata)

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
            describe_log_dirs,
            close,
        )
    }
    | groups.operations()
    | transactions.operations()
)

if __name__ == "__main__":
    serve("kafka-python", kafka.__version__, OPERATIONS, code_of)
