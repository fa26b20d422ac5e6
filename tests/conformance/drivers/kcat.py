"""Driver of kcat: each operation is one run of the command, as a person would type it.

kcat names errors in librdkafka's words, not in numbers; confluent-kafka, which carries the same table, turns them back.
It cannot write an empty value without a key, nor set a timestamp, and shows headers as text.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError

from tests.conformance.drivers.kcat_members import Groups
from tests.conformance.drivers.loop import UNKNOWN_CODE, KafkaRefusal, refusal, serve, to_bytes, to_text

BOOTSTRAP, KCAT = sys.argv[1], sys.argv[2]
TIMEOUT_S = 30
KEY_DELIMITER = "\x1f"
RECORD_END = b"\x1e<end>\n"
RECORD_FORMAT = "%o %T %K %S\n%k%s%h" + RECORD_END.decode()
AT = {"earliest": -2, "latest": -1}
SETTING_NAMES = {
    "acks": "acks",
    "compression": "compression.codec",
    "idempotence": "enable.idempotence",
    "linger_ms": "linger.ms",
    "batch_bytes": "batch.size",
    "max_request_bytes": "message.max.bytes",
    "in_flight": "max.in.flight",
    "request_timeout_ms": "socket.timeout.ms",
    "isolation": "isolation.level",
    "reset": "auto.offset.reset",
}
CODES_BY_TEXT = {KafkaError(code).str(): code for code in [*range(-200, 0), *range(1, 140)]}
DELIVERED = re.compile(r"% Message delivered to partition (\d+) \(offset (-?\d+)\)")


def run(arguments: Sequence[str | bytes], settings: dict[str, Any], *, stdin: bytes = b"") -> tuple[bytes, str]:
    """Run kcat once; answers its output and what it said on stderr, or raises the error that it named."""
    command: list[str | bytes] = [KCAT, "-b", settings.get("bootstrap", BOOTSTRAP), *arguments]
    for name, value in settings.items():
        if name in SETTING_NAMES:
            command += ["-X", f"{SETTING_NAMES[name]}={spelled(name, value)}"]
    for name, value in settings.get("raw", {}).items():
        command += ["-X", f"{name}={value}"]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False)
    said = done.stderr.decode(errors="replace")
    if done.returncode or "% ERROR" in said or "Delivery failed" in said:
        raise KafkaRefusal(code_named_in(said), said.strip())
    return done.stdout, said


def spelled(name: str, value: Any) -> str:
    """A setting's value in librdkafka's spelling."""
    if isinstance(value, bool):
        return str(value).lower()
    return "error" if (name, value) == ("reset", "none") else str(value)


def code_named_in(text: str) -> int:
    named = [known for known in CODES_BY_TEXT if known in text]
    return CODES_BY_TEXT[max(named, key=len)] if named else UNKNOWN_CODE


def produce(topic: str, records: list[dict[str, Any]], **settings: Any) -> list[Any]:
    values = [to_bytes(record["value"]) for record in records]
    plain = all(not record["headers"] and record["key"] is None for record in records)
    one_partition = len({record["partition"] for record in records}) == 1
    if plain and one_partition and all(value and b"\n" not in value for value in values):
        lines = b"\n".join(value or b"" for value in values)
        arguments = ["-P", "-vvv", "-t", topic, *at_partition(records[0]["partition"])]
        return attempted(len(records), lambda: delivered(run(arguments, settings, stdin=lines)[1]))
    return [one for record in records for one in attempted(1, partial(produce_one, topic, record, settings))]


def attempted(count: int, produce_them: Callable[[], list[Any]]) -> list[Any]:
    try:
        return produce_them()
    except KafkaRefusal as error:
        return [refusal(error, lambda _: UNKNOWN_CODE)] * count


def produce_one(topic: str, record: dict[str, Any], settings: dict[str, Any]) -> list[Any]:
    key, value = to_bytes(record["key"]), to_bytes(record["value"])
    arguments: list[str | bytes] = ["-P", "-vvv", "-t", topic, *at_partition(record["partition"])]
    for name, text in record["headers"]:
        data = to_bytes(text)
        arguments += ["-H", name if data is None else name.encode() + b"=" + data]
    if not value:
        nulls = ["-Z"] if value is None else []
        line = (key or b"") + KEY_DELIMITER.encode() + b"\n"
        return delivered(run([*arguments, *nulls, "-K", KEY_DELIMITER], settings, stdin=line)[1])
    if key is not None:
        arguments += ["-k", key]
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(value)
        return delivered(run([*arguments, file.name], settings)[1])


def at_partition(partition: int | None) -> list[str]:
    return [] if partition is None else ["-p", str(partition)]


def delivered(said: str) -> list[dict[str, Any]]:
    return [
        {"partition": int(partition), "offset": int(offset), "timestamp": None}
        for partition, offset in DELIVERED.findall(said)
    ]


def fetch(topic: str, partition: int, offset: int, count: int, wait_ms: int, **settings: Any) -> list[Any]:
    reading = ["-C", "-q", "-e", "-t", topic, "-p", str(partition), "-o", str(offset), "-c", str(count)]
    output, _ = run([*reading, "-f", RECORD_FORMAT], {"reset": "none", **settings})
    return [described(record) for record in output.split(RECORD_END)[:-1]]


def described(record: bytes) -> dict[str, Any]:
    facts, rest = record.split(b"\n", 1)
    offset, timestamp, key_bytes, value_bytes = (int(fact) for fact in facts.split(b" "))
    key = rest[: max(key_bytes, 0)]
    value = rest[len(key) : len(key) + max(value_bytes, 0)]
    headers = rest[len(key) + len(value) :]
    return {
        "offset": offset,
        "timestamp": timestamp,
        "timestamp_type": None,
        "key": None if key_bytes < 0 else to_text(key),
        "value": None if value_bytes < 0 else to_text(value),
        "headers": [header(part) for part in headers.split(b",")] if headers else [],
    }


def header(text: bytes) -> list[str | None]:
    name, _, value = text.partition(b"=")
    return [name.decode(), None if value == b"NULL" else to_text(value)]


def list_offsets(topic: str, partition: int, at: str | int) -> dict[str, Any]:
    timestamp = AT[at] if isinstance(at, str) else at
    output, _ = run(["-Q", "-t", f"{topic}:{partition}:{timestamp}"], {})
    return {"offset": int(output.split()[-1]), "timestamp": -1}


def list_topics() -> list[str]:
    return [topic["topic"] for topic in metadata()["topics"]]


def describe_topic(name: str) -> dict[str, Any]:
    [topic] = metadata("-t", name)["topics"]
    if "error" in topic:
        raise KafkaRefusal(code_named_in(topic["error"]), topic["error"])
    return {
        "name": topic["topic"],
        "id": None,
        "partitions": [
            {
                "index": part["partition"],
                "leader": part["leader"],
                "replicas": [replica["id"] for replica in part["replicas"]],
                "isr": [replica["id"] for replica in part["isrs"]],
            }
            for part in topic["partitions"]
        ],
    }


def request_metadata(topic: str) -> dict[str, Any]:
    return {"partitions": len(describe_topic(topic)["partitions"])}


def metadata(*arguments: str) -> Any:
    return json.loads(run(["-L", "-J", *arguments], {})[0])


def describe_cluster() -> dict[str, Any]:
    cluster = metadata()
    brokers = [(broker["id"], *broker["name"].rsplit(":", 1)) for broker in cluster["brokers"]]
    return {
        "cluster_id": None,
        "controller": cluster["controllerid"],
        "brokers": [{"id": node, "host": host, "port": int(port)} for node, host, port in brokers],
    }


OPERATIONS = {
    operation.__name__: operation
    for operation in (produce, fetch, list_offsets, list_topics, describe_topic, request_metadata, describe_cluster)
} | Groups(KCAT, BOOTSTRAP, code_named_in).operations()

if __name__ == "__main__":
    banner = subprocess.run([KCAT, "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Version (\S+) .*librdkafka (\S+)", banner)
    serve("kcat", f"{found[1]} (librdkafka {found[2]})" if found else "unknown", OPERATIONS, lambda _: UNKNOWN_CODE)
