"""Configurations of groups: Kafka's names and defaults, through clients and through its own tool."""

from collections.abc import Callable

import pytest

from tests.conformance.client import Client, ClientError
from tests.conformance.error_codes import INVALID_CONFIG
from tests.conformance.groups import new_group
from tests.conformance.kafka_tools import Tools
from tests.conformance.waiting import eventually

KAFKA_DEFAULTS = {
    "consumer.heartbeat.interval.ms": "5000",
    "consumer.session.timeout.ms": "45000",
    "share.auto.offset.reset": "latest",
    "share.delivery.count.limit": "5",
    "share.isolation.level": "read_uncommitted",
    "share.record.lock.duration.ms": "30000",
    "streams.num.standby.replicas": "0",
}
TIMEOUT = "consumer.session.timeout.ms"

by_clients = pytest.mark.parametrize("client", ["java", "confluent-kafka"], indirect=True)


def change(client: Client, group: str, *changes: tuple[str, str, str | None]) -> None:
    client.call("change_configs", kind="group", name=group, changes=changes)


def configs(client: Client, group: str) -> dict[str, str]:
    return {key: entry["value"] for key, entry in client.call("describe_configs", kind="group", name=group).items()}


@by_clients
def test_defaults_are_kafkas(client: Client) -> None:
    found = configs(client, new_group())
    assert {key: found[key] for key in KAFKA_DEFAULTS} == KAFKA_DEFAULTS


@by_clients
def test_set_and_delete(client: Client) -> None:
    group = new_group()

    def has(timeout_ms: str) -> None:
        assert configs(client, group)[TIMEOUT] == timeout_ms

    change(client, group, ("SET", TIMEOUT, "50000"))
    eventually(lambda: has("50000"))
    assert configs(client, new_group())[TIMEOUT] == "45000"
    change(client, group, ("DELETE", TIMEOUT, None))
    eventually(lambda: has("45000"))


@by_clients
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("no.such.key", "1"),
        (TIMEOUT, "soon"),
        (TIMEOUT, "1000"),
        (TIMEOUT, "60001"),
        ("share.auto.offset.reset", "sometime"),
    ],
)
def test_what_is_not_valid_is_refused(client: Client, key: str, value: str) -> None:
    with pytest.raises(ClientError) as refused:
        change(client, new_group(), ("SET", key, value))
    assert refused.value.code == INVALID_CONFIG, refused.value


def test_kafkas_own_tool(tools: Tools, borrow: Callable[[str], Client]) -> None:
    group = new_group()
    tools.ask("ConfigCommand", "--alter", "--group", group, "--add-config", f"{TIMEOUT}=50000")

    def shown() -> None:
        printed = tools.ask("ConfigCommand", "--describe", "--entity-type", "groups", "--entity-name", group).out
        assert f"{TIMEOUT}=50000" in printed

    eventually(shown)
    assert configs(borrow("java"), group)[TIMEOUT] == "50000"
    listed = tools.ask("ConfigCommand", "--describe", "--entity-type", "groups").out
    assert group in listed
    tools.ask("ConfigCommand", "--alter", "--group", group, "--delete-config", TIMEOUT)

    def gone() -> None:
        assert TIMEOUT not in tools.ask("ConfigCommand", "--describe", "--group", group).out

    eventually(gone)
