"""Driver of aiokafka. The loop runs between requests too, so an open producer or consumer stays alive."""

import asyncio
import sys
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError, ProducerFenced

from tests.conformance.drivers.aiokafka_members import Groups
from tests.conformance.drivers.aiokafka_transactions import Transactions
from tests.conformance.drivers.loop import (
    UNKNOWN_CODE,
    KafkaRefusal,
    introduce,
    open_answers,
    refusal,
    requests,
    to_bytes,
    to_text,
    write,
)

BOOTSTRAP = sys.argv[1]
TIMEOUT_S = 30
READ_ONLY, IS_DEFAULT_SOURCE = 2, 5
PRODUCER_FENCED = 90
SETTING_NAMES = {
    "bootstrap": "bootstrap_servers",
    "compression": "compression_type",
    "idempotence": "enable_idempotence",
    "linger_ms": "linger_ms",
    "batch_bytes": "max_batch_size",
    "max_request_bytes": "max_request_size",
    "request_timeout_ms": "request_timeout_ms",
    "isolation": "isolation_level",
    "reset": "auto_offset_reset",
}

producers: dict[str, AIOKafkaProducer] = {}
consumers: dict[str, AIOKafkaConsumer] = {}
administrators: list[AIOKafkaAdminClient] = []


def configuration(settings: dict[str, Any]) -> dict[str, Any]:
    named = {SETTING_NAMES[name]: value for name, value in settings.items() if name in SETTING_NAMES}
    if "acks" in settings:
        named["acks"] = "all" if settings["acks"] == "all" else int(settings["acks"])
    if named.get("compression_type") == "none":
        named["compression_type"] = None
    return {"bootstrap_servers": BOOTSTRAP, **named}


def code_of(error: BaseException) -> int:
    if isinstance(error, ProducerFenced):
        return PRODUCER_FENCED  # Its own exception for two of the broker's numbers; it keeps neither.
    return int(error.errno) if isinstance(error, BrokerResponseError) else UNKNOWN_CODE


async def produce(topic: str, records: list[dict[str, Any]], producer: str | None = None, **settings: Any) -> list[Any]:
    client = producers.get(producer or "")
    if client is None:
        client = AIOKafkaProducer(**configuration(settings))
        await client.start()
        if producer is not None:
            producers[producer] = client
    try:
        futures = [
            await client.send(
                topic,
                key=to_bytes(record["key"]),
                value=to_bytes(record["value"]),
                headers=[(name, to_bytes(value)) for name, value in record["headers"]],
                partition=record["partition"],
                timestamp_ms=record["timestamp"],
            )
            for record in records
        ]
        return [await outcome(future) for future in futures]
    finally:
        if producer is None:
            await client.stop()


async def outcome(future: Any) -> dict[str, Any]:
    try:
        stored = await asyncio.wait_for(future, TIMEOUT_S)
    except Exception as error:  # One record's outcome is a value; the others still count.
        return refusal(error, code_of)
    # With acks=0 there is no metadata: nobody knows the offset.
    return {
        "partition": stored.partition if stored else -1,
        "offset": stored.offset if stored else -1,
        "timestamp": stored.timestamp if stored else -1,
    }


async def fetch(
    topic: str, partition: int, offset: int, count: int, wait_ms: int, consumer: str | None = None, **settings: Any
) -> list[Any]:
    where = TopicPartition(topic, partition)
    client = consumers.get(consumer or "")
    if client is None:
        client = AIOKafkaConsumer(
            **{"auto_offset_reset": "none", "enable_auto_commit": False, **configuration(settings)}
        )
        await client.start()
        client.assign([where])
        client.seek(where, offset)
        if consumer is not None:
            consumers[consumer] = client
    found: list[Any] = []
    clock = asyncio.get_running_loop().time
    deadline = clock() + wait_ms / 1000
    try:
        while len(found) < count and (left_s := deadline - clock()) > 0:
            fetched = await client.getmany(timeout_ms=int(left_s * 1000) + 1, max_records=count - len(found))
            for records in fetched.values():
                found += [described(record) for record in records]
    finally:
        if consumer is None:
            await client.stop()
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


async def list_offsets(topic: str, partition: int, at: str | int) -> dict[str, Any]:
    where = TopicPartition(topic, partition)
    client = AIOKafkaConsumer(bootstrap_servers=BOOTSTRAP)
    await client.start()
    try:
        if at == "earliest":
            return {"offset": (await client.beginning_offsets([where]))[where], "timestamp": -1}
        if at == "latest":
            return {"offset": (await client.end_offsets([where]))[where], "timestamp": -1}
        found = (await client.offsets_for_times({where: at}))[where]
        return (
            {"offset": -1, "timestamp": -1} if found is None else {"offset": found.offset, "timestamp": found.timestamp}
        )
    finally:
        await client.stop()


async def admin() -> AIOKafkaAdminClient:
    if not administrators:
        client = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
        await client.start()
        administrators.append(client)
    return administrators[0]


async def create_topic(
    name: str, partitions: int, replication: int, configs: dict[str, str], validate_only: bool
) -> None:
    wanted = NewTopic(name, partitions, replication, topic_configs=configs)
    response = await (await admin()).create_topics([wanted], validate_only=validate_only)
    [(_, code, *message)] = response.topic_errors
    raise_code(code, *message)


async def delete_topic(name: str) -> None:
    response = await (await admin()).delete_topics([name])
    [(_, code, *_)] = response.topic_error_codes
    raise_code(code)


def raise_code(code: int, message: Any = None, *_: Any) -> None:
    if code:
        raise KafkaRefusal(code, message)


async def create_partitions(name: str, total: int) -> None:
    await (await admin()).create_partitions({name: NewPartitions(total)})


async def list_topics() -> list[str]:
    return list(await (await admin()).list_topics())


async def describe_topic(name: str) -> dict[str, Any]:
    [topic] = await (await admin()).describe_topics([name])
    raise_code(topic["error_code"])
    return {
        "name": topic["topic"],
        "id": None,
        "partitions": [
            {"index": part["partition"], "leader": part["leader"], "replicas": part["replicas"], "isr": part["isr"]}
            for part in topic["partitions"]
        ],
    }


def resource(kind: str, name: str, configs: dict[str, str] | None = None) -> ConfigResource:
    return ConfigResource(ConfigResourceType[kind.upper()], name, configs)


async def describe_configs(kind: str, name: str) -> dict[str, Any]:
    [response] = await (await admin()).describe_configs([resource(kind, name)])
    [(code, message, _, _, entries)] = response.resources
    raise_code(code, message)
    return {
        key: {"value": value, "read_only": read_only, "default": source == IS_DEFAULT_SOURCE}
        for key, value, read_only, source, *_ in entries
    }


async def replace_configs(kind: str, name: str, configs: dict[str, str]) -> None:
    for response in await (await admin()).alter_configs([resource(kind, name, configs)]):
        for code, message, *_ in response.resources:
            raise_code(code, message)


async def delete_records(topic: str, partition: int, before: int) -> int:
    where = TopicPartition(topic, partition)
    return int((await (await admin()).delete_records({where: RecordsToDelete(before)}))[where])


async def describe_cluster() -> dict[str, Any]:
    cluster = await (await admin()).describe_cluster()
    return {
        "cluster_id": cluster["cluster_id"],
        "controller": cluster["controller_id"],
        "brokers": [{"id": node["node_id"], "host": node["host"], "port": node["port"]} for node in cluster["brokers"]],
    }


async def close(name: str) -> None:
    for opened in (producers.pop(name, None), consumers.pop(name, None)):
        if opened is not None:
            await opened.stop()


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
            describe_configs,
            replace_configs,
            delete_records,
            describe_cluster,
            close,
        )
    }
    | Groups(BOOTSTRAP, admin, code_of).operations()
    | Transactions(BOOTSTRAP, producers).operations()
)


async def serve() -> None:
    answers = open_answers()
    introduce(answers, "aiokafka", aiokafka.__version__)
    incoming = requests()
    while (request := await asyncio.to_thread(next, incoming, None)) is not None:
        operation, arguments = request
        try:
            answer: dict[str, Any] = {"ok": await OPERATIONS[operation](**arguments)}
        except Exception as error:  # Whatever the client raises is the answer; the test judges it.
            answer = refusal(error, code_of)
        write(answers, answer)


if __name__ == "__main__":
    asyncio.run(serve())
