"""Settings from options, TOML and environment: Kafka's names, one table, mistakes told by name."""

import logging
from pathlib import Path

import pytest

from ottla.server.listeners import Address, advertised_of, listeners_of
from ottla.server.settings import SettingsError, settings_of_serve, settings_of_up

ONE_REPLICA, THREE_REPLICAS = {"default.replication.factor": "1"}, {"default.replication.factor": "3"}


def test_up_needs_nothing() -> None:
    config = settings_of_up(data="d", host="localhost", port=9092, overrides={}, environment={})
    assert config.listing("log.dirs") == ("d",)
    assert config.flag("auto.create.topics.enable")
    assert listeners_of(config) == [Address(name="PLAINTEXT", host="localhost", port=9092)]


@pytest.mark.parametrize(("overrides", "replicas"), [({}, 1), (ONE_REPLICA, 1), (THREE_REPLICAS, 3)])
def test_internal_topics_of_a_node_by_itself_and_of_one_of_three(overrides: dict[str, str], replicas: int) -> None:
    config = settings_of_up(data="d", host="h", port=1, overrides=overrides, environment={})
    assert config.integer("offsets.topic.replication.factor") == replicas
    assert config.integer("transaction.state.log.replication.factor") == replicas


def test_overrides_beat_the_environment_beats_defaults() -> None:
    environment = {"OTTLA_NUM_PARTITIONS": "3", "OTTLA_BROKER_RACK": "a", "OTTLA_CHAOS_ROUNDS": "5", "PATH": "/bin"}
    environment |= {"OTTLA_PIPELINE_STATE": "d", "OTTLA_SPARK_BOOTSTRAP": "h:1"}  # Of other programs.
    config = settings_of_up(data="d", host="h", port=1, overrides={"num.partitions": "7"}, environment=environment)
    assert config.integer("num.partitions") == 7
    assert config.string("broker.rack") == "a"


def test_a_toml_file_with_dotted_names(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(
        'node.id = 4\nlisteners = "PLAINTEXT://0.0.0.0:9092"\nlog.dirs = ["/a", "/b"]\nlog.retention.hours = 5\n'
        "delete.topic.enable = false\n"
    )
    config = settings_of_serve(str(path), overrides={}, environment={"OTTLA_NODE_ID": "5"})
    assert config.integer("node.id") == 5
    assert config.listing("log.dirs") == ("/a", "/b")
    assert not config.flag("delete.topic.enable")
    assert not config.flag("auto.create.topics.enable")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node.id = 1", "missing: log.dirs, listeners"),
        ('node.id = "x"\nlog.dirs="d"\nlisteners="PLAINTEXT://:1"', "node.id"),
        ('node.id = 1\nlog.dirs="d"\nlisteners="PLAINTEXT://:1"\nnum.partition = 3', "did you mean num.partitions"),
        ("node.id = ", "Invalid value"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=told):
        settings_of_serve(str(path), overrides={}, environment={})


def test_a_missing_file_and_an_unknown_variable() -> None:
    with pytest.raises(SettingsError, match="no file"):
        settings_of_serve("/nowhere/node.toml", overrides={}, environment={})
    with pytest.raises(SettingsError, match="OTTLA_NUM_PARTITION"):
        settings_of_up(data="d", host="h", port=1, overrides={}, environment={"OTTLA_NUM_PARTITION": "3"})


def test_several_listeners_and_what_is_advertised() -> None:
    config = settings_of_up(
        data="d",
        host="h",
        port=1,
        overrides={
            "listeners": "INSIDE://:9092,OUTSIDE://[::1]:9093",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "advertised.listeners": "OUTSIDE://broker.example:19093",
        },
        environment={},
    )
    bound = listeners_of(config)
    assert bound == [Address(name="INSIDE", host="", port=9092), Address(name="OUTSIDE", host="::1", port=9093)]
    inside, outside = advertised_of(config, bound)
    assert inside.host not in ("", "0.0.0.0") and inside.port == 9092
    assert (outside.host, outside.port) == ("broker.example", 19093)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_who_listens_on_every_address_is_told_which_one_clients_get(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings_of_up(data="d", host=host, port=1, overrides={}, environment={})
    with caplog.at_level(logging.INFO):
        (told,) = advertised_of(config, listeners_of(config))
    assert f"clients are told {told.host}:1" in caplog.text and "advertised.listeners=PLAINTEXT://" in caplog.text


def test_what_the_user_chose_is_not_explained(caplog: pytest.LogCaptureFixture) -> None:
    for overrides in ({}, {"listeners": "PLAINTEXT://:1", "advertised.listeners": "PLAINTEXT://broker.example:1"}):
        config = settings_of_up(data="d", host="10.0.0.1", port=1, overrides=overrides, environment={})
        with caplog.at_level(logging.INFO):
            advertised_of(config, listeners_of(config))
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"listeners": "localhost:9092"}, "NAME://host:port"),
        ({"listeners": "A://:1,A://:2", "listener.security.protocol.map": "A:PLAINTEXT"}, "two listeners"),
        ({"listeners": "SSL://:9093"}, "only PLAINTEXT"),
        ({"listeners": "PLAINTEXT://localhost:70000"}, "70000 is no port: 0 to 65535"),
        ({"listeners": "PLAINTEXT://localhost:-1"}, "-1 is no port: 0 to 65535"),
    ],
)
def test_listeners_that_cannot_be(settings: dict[str, str], told: str) -> None:
    config = settings_of_up(data="d", host="h", port=1, overrides=settings, environment={})
    with pytest.raises(SettingsError, match=told):
        listeners_of(config)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "[::]"])
def test_every_address_cannot_be_advertised(host: str) -> None:
    overrides = {"advertised.listeners": f"PLAINTEXT://{host}:1"}
    config = settings_of_up(data="d", host="h", port=1, overrides=overrides, environment={})
    with pytest.raises(SettingsError, match="clients cannot connect"):
        advertised_of(config, listeners_of(config))


def test_an_advertised_listener_must_be_one_of_ours() -> None:
    overrides = {"advertised.listeners": "OTHER://h:1"}
    config = settings_of_up(data="d", host="h", port=1, overrides=overrides, environment={})
    with pytest.raises(SettingsError, match="OTHER"):
        advertised_of(config, listeners_of(config))
