"""Text that librdkafka cannot take: left to itself, it would end the process where these expect an error."""

from collections.abc import Callable

import pytest

from ottla.client import Admin, ClientError, ConfigError, Consumer, Producer
from ottla.client.text import c_text

NOWHERE = "127.0.0.1:1"
HALF = "\ud800"


def test_text_of_every_script_is_taken_as_it_is() -> None:
    assert c_text("añ🙂", "the topic") == "añ🙂"


@pytest.mark.parametrize(("text", "reason"), [("a\udcffb", "lone surrogate"), ("a\0b", "NUL")])
def test_what_is_no_text_in_c_is_named(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"the topic {ascii(text)[:2]}.*{reason}"):
        c_text(text, "the topic")


@pytest.mark.parametrize("headers", [{HALF: b"1"}, [(HALF, b"1")], {"a\0b": b"1"}])
def test_a_header_name_is_refused_by_the_producer(headers: dict[str, bytes]) -> None:
    with Producer(bootstrap_servers=NOWHERE) as producer, pytest.raises(ValueError, match="the header name"):
        producer.send("t", "x", headers=headers)


@pytest.mark.parametrize("field", ["topic", "value", "key"])
def test_other_text_of_a_record_is_refused(field: str) -> None:
    with Producer(bootstrap_servers=NOWHERE) as producer, pytest.raises(ValueError, match="surrogate"):
        producer.send(**{"topic": "t", field: HALF})  # type: ignore[arg-type]


@pytest.mark.parametrize("option", [{"group.id": HALF}, {HALF: "1"}])
def test_an_option_is_refused(option: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="lone surrogate"):
        Consumer({"bootstrap.servers": NOWHERE, **option})


def test_a_subscription_is_refused() -> None:
    with Consumer(bootstrap_servers=NOWHERE, group_id="g") as consumer, pytest.raises(ValueError, match="the topic"):
        consumer.subscribe(["t", HALF])


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.create_topic("t", configs={HALF: "1"}),
        lambda admin: admin.create_topic("t", configs={"retention.ms": HALF}),
        lambda admin: admin.delete_topic(HALF),
        lambda admin: admin.describe_topic(HALF),
        lambda admin: admin.alter_configs("t", {HALF: 1}),
        lambda admin: admin.describe_group(HALF),
        lambda admin: admin.delete_groups([HALF]),
        lambda admin: admin.list_group_offsets(HALF),
    ],
)
def test_an_admin_call_is_refused(call: Callable[[Admin], object]) -> None:
    with Admin(bootstrap_servers=NOWHERE) as admin, pytest.raises(ValueError, match="lone surrogate"):
        call(admin)


def test_a_topic_without_a_name_is_refused_as_by_a_broker() -> None:
    with Admin(bootstrap_servers=NOWHERE) as admin, pytest.raises(ClientError, match="INVALID_TOPIC_EXCEPTION"):
        admin.describe_topic("")
