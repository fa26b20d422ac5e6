"""Users' SCRAM credentials, by librdkafka and Kafka's own tool; and access control lists, which are refused clearly.

Credentials are kept for listeners to come: nobody logs in with them yet.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client import Client, ClientError
from tests.conformance.error_codes import RESOURCE_NOT_FOUND, SECURITY_DISABLED, UNACCEPTABLE_CREDENTIAL
from tests.conformance.kafka_tools import Printed, Tools
from tests.conformance.registry import start
from tests.conformance.waiting import eventually

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
PASSWORD = "never-to-be-seen"
NO_AUTHORIZER = "No Authorizer is configured"
TO_ALL = ("--allow-principal", "User:*", "--operation", "All", "--topic", "*")


@pytest.fixture
def client(borrow: Callable[[str], Client]) -> Client:
    return borrow("confluent-kafka")


@pytest.fixture
def user(topic_name: str) -> str:
    return f"user-{topic_name}"


def alter(client: Client, user: str, mechanism: str = SHA_256, **change: Any) -> Any:
    """{} or the error that the user was answered with."""
    return client.call("alter_users", changes=[{"user": user, "mechanism": mechanism, **change}])[user]


def code_of(outcome: Any) -> int:
    code: int = outcome["error"]["code"]
    return code


def described_as(client: Client, user: str, expected: dict[str, int]) -> None:
    def look() -> None:
        assert client.call("describe_users", users=[user])[user] == expected
        assert client.call("describe_users", users=None)[user] == expected

    eventually(look)


def unknown(client: Client, user: str) -> None:
    def look() -> None:
        assert code_of(client.call("describe_users", users=[user])[user]) == RESOURCE_NOT_FOUND

    eventually(look)


def test_a_password_is_set_replaced_and_deleted(client: Client, user: str) -> None:
    unknown(client, user)
    assert alter(client, user, password=PASSWORD, iterations=8192) == {}
    described_as(client, user, {SHA_256: 8192})
    assert alter(client, user, SHA_512, password=PASSWORD) == {}
    assert alter(client, user, password="another", iterations=16_384) == {}
    described_as(client, user, {SHA_256: 16_384, SHA_512: 4096})
    assert alter(client, user) == {}
    described_as(client, user, {SHA_512: 4096})
    assert alter(client, user, SHA_512) == {}
    unknown(client, user)


def test_each_user_of_a_request_has_an_outcome_of_its_own(client: Client, user: str) -> None:
    good, hasty, missing = f"{user}-good", f"{user}-hasty", f"{user}-missing"
    outcomes = client.call(
        "alter_users",
        changes=[
            {"user": good, "mechanism": SHA_256, "password": PASSWORD},
            {"user": hasty, "mechanism": SHA_256, "password": PASSWORD, "iterations": 4095},
            {"user": missing, "mechanism": SHA_512},
        ],
    )
    assert outcomes[good] == {}
    assert code_of(outcomes[hasty]) == UNACCEPTABLE_CREDENTIAL
    assert code_of(outcomes[missing]) == RESOURCE_NOT_FOUND
    described_as(client, good, {SHA_256: 4096})
    unknown(client, hasty)


def test_kafkas_configs_tool_sets_and_deletes_passwords(tools: Tools, client: Client, user: str) -> None:
    def change(*what: str) -> Printed:
        return tools.attempt_ask("ConfigCommand", "--alter", "--entity-type", "users", "--entity-name", user, *what)

    assert change("--add-config", f"{SHA_256}=[iterations=8192,password={PASSWORD}]").status == 0
    assert change("--add-config", f"{SHA_512}=[password={PASSWORD}]").status == 0
    described_as(client, user, {SHA_256: 8192, SHA_512: 4096})
    hasty = change("--add-config", f"{SHA_256}=[iterations=100000,password={PASSWORD}]")
    assert "Too many iterations" in hasty.out + hasty.err
    assert change("--delete-config", SHA_256).status == 0
    described_as(client, user, {SHA_512: 4096})
    again = change("--delete-config", SHA_256)
    assert "ResourceNotFoundException" in again.out + again.err


@pytest.mark.needs_ottla
def test_credentials_outlive_the_broker_in_the_log_and_in_a_snapshot(tools: Tools) -> None:
    """And Kafka's kafka-dump-log reads both."""
    import ottla.testing

    config = {"metadata.log.max.record.bytes.between.snapshots": 2000}
    with ottla.testing.broker(config=config) as broker, start("confluent-kafka", broker.bootstrap_servers) as client:
        directory = Path(broker.data_dir) / "__cluster_metadata-0"
        assert alter(client, "gone", password=PASSWORD) == {}
        assert alter(client, "gone") == {}
        assert alter(client, "anna", SHA_512, password=PASSWORD, iterations=5000) == {}
        log = dumped(tools, sorted(directory.glob("*.log"))[-1])
        assert log.count('"type":"USER_SCRAM_CREDENTIAL_RECORD"') == 2
        assert '"type":"REMOVE_USER_SCRAM_CREDENTIAL_RECORD","version":0,"data":{"name":"gone","mechanism":1}' in log
        broker.kill()
        broker.restart()
        described_as(client, "anna", {SHA_512: 5000})

        def snapshot() -> str:
            client.create_topic(f"filler-{os.urandom(4).hex()}")
            printed = dumped(tools, sorted(directory.glob("*.checkpoint"))[-1]) if any_of(directory) else ""
            assert '"USER_SCRAM_CREDENTIAL_RECORD","version":0,"data":{"name":"anna","mechanism":2,' in printed
            return printed

        assert '"name":"gone"' not in eventually(snapshot, wait_s=30)
        broker.kill()
        broker.restart()
        described_as(client, "anna", {SHA_512: 5000})
        unknown(client, "gone")


def any_of(directory: Path) -> bool:
    return any(directory.glob("*.checkpoint"))


def dumped(tools: Tools, file: Path) -> str:
    printed = tools.dump(file, "--cluster-metadata-decoder", "--skip-record-metadata").out
    assert PASSWORD not in printed
    return printed


# ---- access control lists ----


@pytest.mark.parametrize("asked", [("--list",), ("--add", *TO_ALL), ("--remove", "--force", *TO_ALL)], ids=str)
def test_kafkas_acls_tool_is_told_that_there_is_no_authorizer(tools: Tools, asked: tuple[str, ...]) -> None:
    refused = tools.attempt_ask("AclCommand", *asked)
    assert "SecurityDisabledException" in refused.out + refused.err
    assert NO_AUTHORIZER in refused.out + refused.err


@pytest.mark.parametrize(
    ("word", "arguments"), [("create_acl", {"topic": "t", "principal": "User:anna"}), ("delete_acls", {})]
)
def test_librdkafka_is_told_that_there_is_no_authorizer(client: Client, word: str, arguments: dict[str, str]) -> None:
    """Not when it describes: confluent-kafka answers an empty list then, whatever the broker says."""
    with pytest.raises(ClientError, match=NO_AUTHORIZER) as refused:
        client.call(word, **arguments)
    assert refused.value.code == SECURITY_DISABLED
