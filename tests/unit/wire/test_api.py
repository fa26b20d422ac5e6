"""Message classes: fields, defaults, equality, laziness, and the stub that tells mypy about them."""

import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from ottla.wire import api, definitions, stub
from tests.unit.wire.message_values import ValueMaker, message_classes, versions_of


def test_fields_take_keywords_and_have_kafkas_defaults() -> None:
    request = api.FetchRequest(min_bytes=1)
    assert request.min_bytes == 1
    assert request.max_bytes == 0x7FFFFFFF
    assert request.session_epoch == -1
    assert request.cluster_id is None
    assert request.topics == []
    assert api.FetchRequest.FetchTopic().topic_id == UUID(int=0)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError):
        api.FetchRequest(no_such_field=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        api.FetchRequest().no_such_field = 1  # type: ignore[attr-defined]


def test_an_unknown_message_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="NoSuchRequest"):
        api.NoSuchRequest  # type: ignore[attr-defined]  # noqa: B018


def test_lists_are_not_shared() -> None:
    first, second = api.FetchRequest(), api.FetchRequest()
    first.topics.append(api.FetchRequest.FetchTopic())
    assert second.topics == []


def test_structs_with_lists_are_not_shared_either() -> None:
    member = api.ConsumerGroupDescribeResponse.Member
    first, second = member(), member()
    first.assignment.topic_partitions.append(api.ConsumerGroupDescribeResponse.TopicPartitions())
    assert second.assignment.topic_partitions == []


def test_a_shared_default_cannot_be_changed() -> None:
    partition = api.FetchResponse.PartitionData()
    with pytest.raises(AttributeError, match="assign a new struct"):
        partition.current_leader.leader_id = 5
    partition.current_leader = api.FetchResponse.LeaderIdAndEpoch(leader_id=5, leader_epoch=1)
    assert partition != api.FetchResponse.PartitionData()


def test_equality_and_repr() -> None:
    topic = api.TopicRecord(name="orders", topic_id=UUID(int=7))
    assert topic == api.TopicRecord(name="orders", topic_id=UUID(int=7))
    assert topic != api.TopicRecord(name="orders")
    assert topic != "orders"
    assert repr(topic) == "TopicRecord(name='orders', topic_id=UUID('00000000-0000-0000-0000-000000000007'))"
    assert api.FetchResponse.LeaderIdAndEpoch() == api.FetchResponse.PartitionData().current_leader


def test_values_survive_a_keyword_round_trip() -> None:
    for message_class in message_classes():
        message = ValueMaker(3, 0.7).message(message_class, versions_of(message_class)[-1])
        again = message_class(**{field.name: getattr(message, field.name) for field in message_class.STRUCT.fields})
        assert again == message


def test_importing_parses_nothing() -> None:
    program = "import sys, ottla.wire.api as api; sys.exit(any(name.endswith('Request') for name in vars(api)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_every_name_is_there() -> None:
    assert dir(api) == sorted(definitions.texts())
    assert len(dir(api)) == 267


def test_the_stub_is_current() -> None:
    written = Path(api.__file__ or "").with_suffix(".pyi").read_text()
    assert written == stub.stub_text(), (
        "run: python -m ottla.wire.stub > stub.new && mv stub.new src/ottla/wire/api.pyi"
    )
