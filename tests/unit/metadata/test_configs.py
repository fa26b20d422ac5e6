"""The table of configurations, and which layer wins."""

import re

import pytest

from ottla.metadata.config_key import ConfigSource, ConfigType, InvalidConfigValue, UpdateMode, parse, render
from ottla.metadata.config_table_group import broker_key_of
from ottla.metadata.config_table_topic import TOPIC_SYNONYMS
from ottla.metadata.configs import (
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    BrokerLayers,
    UnknownConfig,
    broker_key,
    check_topic_configs,
    is_live,
    log_config_for,
    log_defaults,
    parse_broker_settings,
    resolve_broker_config,
    resolve_topic_config,
    topic_key,
)

EVERY_KEY = [*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values(), *GROUP_CONFIGS.values()]

# The names that the seeds use (configs.md), with the defaults of Kafka 4.3.
NAMES_OF_THE_SEEDS = {
    "topic": {
        "retention.ms": "604800000",
        "retention.bytes": "-1",
        "segment.bytes": "1073741824",
        "segment.ms": "604800000",
        "min.insync.replicas": "1",
        "compression.type": "producer",
        "cleanup.policy": "delete",
        "delete.retention.ms": "86400000",
        "unclean.leader.election.enable": "false",
        "index.interval.bytes": "4096",
        "max.message.bytes": "1048588",
        "local.retention.ms": "-2",
        "remote.storage.enable": "false",
    },
    "broker": {
        "replica.lag.time.max.ms": "30000",
        "log.segment.bytes": "1073741824",
        "log.retention.hours": "168",
        "log.retention.minutes": None,
        "log.retention.ms": None,
        "log.roll.hours": "168",
        "num.partitions": "1",
        "num.io.threads": "8",
        "num.network.threads": "3",
        "socket.send.buffer.bytes": "102400",
        "broker.rack": None,
        "log.dirs": None,
        "offsets.topic.num.partitions": "50",
        "offsets.topic.replication.factor": "3",
        "replica.fetch.max.bytes": "1048576",
        "broker.session.timeout.ms": "9000",
        "leader.replication.throttled.rate": str(2**63 - 1),
        "follower.replication.throttled.rate": str(2**63 - 1),
    },
}


def topic_value(name, topic=None, *, replication_factor=1, **layers):
    return resolve_topic_config(topic_key(name), topic or {}, BrokerLayers(**layers), replication_factor)


# ---- the table ----


@pytest.mark.parametrize(("name", "default"), NAMES_OF_THE_SEEDS["topic"].items())
def test_every_topic_name_of_the_seeds_is_known(name, default):
    assert render(TOPIC_CONFIGS[name].default) == default


@pytest.mark.parametrize(("name", "default"), NAMES_OF_THE_SEEDS["broker"].items())
def test_every_broker_name_of_the_seeds_is_known(name, default):
    assert render(BROKER_CONFIGS[name].default) == default


@pytest.mark.parametrize("key", EVERY_KEY, ids=lambda key: key.name)
def test_every_default_is_a_value_that_the_key_accepts(key):
    if key.default is not None:
        assert parse(key, render(key.default)) == key.default


@pytest.mark.parametrize("key", EVERY_KEY, ids=lambda key: key.name)
def test_every_key_is_documented_in_one_sentence(key):
    assert re.fullmatch(r"[^\n]{10,}\.", key.documentation)


def test_every_synonym_is_a_broker_key_of_the_same_type():
    for name, synonyms in TOPIC_SYNONYMS.items():
        for synonym in synonyms:
            key = BROKER_CONFIGS[synonym.broker_key]
            if synonym.factor == 1:
                assert key.type is TOPIC_CONFIGS[name].type, name


def test_a_topics_default_is_that_of_its_last_synonym():
    for name, synonyms in TOPIC_SYNONYMS.items():
        default = BROKER_CONFIGS[synonyms[-1].broker_key].default
        assert synonyms[-1].to_topic_unit(default) == TOPIC_CONFIGS[name].default, name


def test_only_what_reaches_logs_compaction_or_verification_is_live():
    synonyms = {synonym.broker_key for several in TOPIC_SYNONYMS.values() for synonym in several}
    live = {key.name for key in BROKER_CONFIGS.values() if key.update_mode is UpdateMode.LIVE}
    assert live - synonyms == {
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "sasl.kerberos.min.time.before.relogin",  # Kafka's own clients change it in their tests.
        "transaction.partition.verification.enable",
    }
    assert is_live("log.retention.ms")
    assert not is_live("num.io.threads")


# ---- keys ----


def test_an_unknown_key_is_refused_with_a_suggestion():
    with pytest.raises(
        UnknownConfig, match=r"^Unknown topic config name: retention.msec; did you mean retention.ms\?$"
    ):
        topic_key("retention.msec")
    with pytest.raises(UnknownConfig, match=r"^Unknown broker config name: zzz$"):
        broker_key("zzz")


def test_a_listener_may_have_its_own_value_of_a_key():
    assert broker_key("listener.name.outside.ssl.keystore.location").name == "ssl.keystore.location"
    assert broker_key("listener.name.outside.scram-sha-256.sasl.jaas.config").type is ConfigType.PASSWORD
    with pytest.raises(UnknownConfig):
        broker_key("listener.name.outside.nonsense")


# ---- checks across keys ----


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            r"min.compaction.lag.ms \(10\) must not exceed",
        ),
        ({"remote.storage.enable": "true", "retention.ms": "5", "local.retention.ms": "6"}, "local.retention.ms"),
        (
            {"remote.storage.enable": "true", "retention.bytes": "5", "local.retention.bytes": "-1"},
            "local.retention.bytes",
        ),
        ({"leader.replication.throttled.replicas": "0:1,x"}, "'x' is not partition:broker"),
    ],
)
def test_values_that_contradict_each_other_are_refused(texts, reason):
    with pytest.raises(InvalidConfigValue, match=reason):
        check_topic_configs(texts)


def test_values_that_fit_together_are_accepted():
    check_topic_configs({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5", "retention.ms": "-1",
                         "local.retention.ms": "6", "leader.replication.throttled.replicas": "*"})  # fmt: skip


# ---- layers ----


def test_the_strongest_layer_wins_and_the_others_are_shadowed():
    resolved = topic_value(
        "max.message.bytes",
        {"max.message.bytes": "1"},
        dynamic={"message.max.bytes": "2"},
        dynamic_default={"message.max.bytes": "3"},
        static={"message.max.bytes": "4"},
    )
    assert (resolved.value, resolved.source) == (1, ConfigSource.DYNAMIC_TOPIC)
    assert [(one.name, one.value, one.source) for one in resolved.synonyms] == [
        ("max.message.bytes", "1", ConfigSource.DYNAMIC_TOPIC),
        ("message.max.bytes", "2", ConfigSource.DYNAMIC_BROKER),
        ("message.max.bytes", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("message.max.bytes", "4", ConfigSource.STATIC_BROKER),
        ("message.max.bytes", "1048588", ConfigSource.DEFAULT),
    ]


def test_within_a_layer_milliseconds_come_before_minutes_before_hours():
    static = {"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}
    assert topic_value("retention.ms", static=static).value == 3
    del static["log.retention.ms"]
    assert topic_value("retention.ms", static=static).value == 2 * 60_000
    del static["log.retention.minutes"]
    assert topic_value("retention.ms", static=static).value == 3_600_000


def test_no_limit_has_no_unit():
    assert topic_value("retention.ms", static={"log.retention.hours": "-1"}).value == -1


def test_min_insync_replicas_is_two_from_three_replicas_on_unless_somebody_says_otherwise():
    assert topic_value("min.insync.replicas", replication_factor=2).value == 1
    assert topic_value("min.insync.replicas", replication_factor=3).value == 2
    assert topic_value("min.insync.replicas", replication_factor=3).source is ConfigSource.DEFAULT
    assert (
        topic_value("min.insync.replicas", replication_factor=3, dynamic_default={"min.insync.replicas": "1"}).value
        == 1
    )
    assert topic_value("min.insync.replicas", replication_factor=3, static={"min.insync.replicas": "1"}).value == 2


def test_a_secret_is_not_shown():
    resolved = resolve_broker_config(broker_key("ssl.key.password"), BrokerLayers(static={"ssl.key.password": "x"}))
    assert resolved.value == "x"
    assert resolved.text is None
    assert [one.value for one in resolved.synonyms] == [None]


def test_an_unset_key_without_a_default_shadows_nothing():
    resolved = resolve_broker_config(broker_key("broker.rack"), BrokerLayers())
    assert (resolved.text, resolved.source, resolved.synonyms) == (None, ConfigSource.DEFAULT, ())


# ---- what others take from here ----


def test_a_log_is_configured_with_typed_values():
    defaults = log_defaults(BrokerLayers(static={"log.segment.bytes": "2097152"}), 1)
    values = log_config_for({"cleanup.policy": "compact,delete", "internal.segment.bytes": "100"}, defaults)
    assert values["cleanup.policy"] == ("compact", "delete")
    assert values["segment.bytes"] == 100
    assert log_config_for({}, defaults)["segment.bytes"] == 2_097_152
    assert "internal.segment.bytes" not in values
    assert set(values) == set(TOPIC_CONFIGS) - {"internal.segment.bytes"}


def test_settings_of_a_node_are_checked_and_typed():
    config = parse_broker_settings({"num.partitions": 12, "log.dirs": ["/a", "/b"], "delete.topic.enable": False})
    assert config.integer("num.partitions") == 12
    assert config.listing("log.dirs") == ("/a", "/b")
    assert not config.flag("delete.topic.enable")
    assert config.integer("num.io.threads") == 8
    assert config.string("broker.rack") is None
    assert dict(config)["num.partitions"] == 12
    with pytest.raises(InvalidConfigValue):
        parse_broker_settings({"num.partitions": 0})
    with pytest.raises(UnknownConfig):
        parse_broker_settings({"num.partition": 1})


def test_the_tuning_sheet_of_seed_003_is_accepted_whole():
    parse_broker_settings(
        {
            "num.network.threads": 8,
            "num.io.threads": 16,
            "socket.send.buffer.bytes": 1_048_576,
            "num.partitions": 12,
            "log.segment.bytes": 1_073_741_824,
            "log.retention.hours": 168,
            "replica.lag.time.max.ms": 10_000,
            "replica.fetch.max.bytes": 1_048_576,
            "min.insync.replicas": 2,
            "broker.rack": "us-east-1a",
        }
    )


def test_a_group_keys_default_is_that_of_its_broker_key():
    pairs = [(key, BROKER_CONFIGS.get(broker_key_of(name))) for name, key in GROUP_CONFIGS.items()]
    inherited = [(key, broker) for key, broker in pairs if broker is not None]
    assert len(inherited) == 14
    for key, broker in inherited:
        assert (key.default, key.type) == (broker.default, broker.type), key.name
