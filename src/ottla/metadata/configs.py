"""Configuration values: which keys exist, which values they take, and which layer wins.

The one place that joins the tables. A value is looked up as dynamic topic or group > dynamic broker > dynamic default of
all brokers > static (file and environment) > default; of topic and group keys the broker layers hold the synonyms.
Everything here is pure: the image keeps the dynamic layers, the node its static one. `log_config_for` hands typed values
to whoever builds a log's configuration, so that `metadata` and `log` need not know each other.
"""

import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.base.errors import invariant
from ottla.metadata.config_key import (
    ConfigKey,
    ConfigSource,
    ConfigType,
    ConfigValue,
    InvalidConfigValue,
    UpdateMode,
    parse,
    render,
)
from ottla.metadata.config_table_broker import BROKER_CORE_KEYS
from ottla.metadata.config_table_coordinator import COORDINATOR_KEYS
from ottla.metadata.config_table_group import GROUP_KINDS, GROUP_LEVEL_KEYS, bound_keys_of, broker_key_of
from ottla.metadata.config_table_security import SECURITY_KEYS
from ottla.metadata.config_table_topic import TOPIC_KEYS, TOPIC_SYNONYMS, Synonym

TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in TOPIC_KEYS}
GROUP_CONFIGS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in GROUP_LEVEL_KEYS}
BROKER_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    key.name: key for key in sorted(BROKER_CORE_KEYS + COORDINATOR_KEYS + SECURITY_KEYS, key=lambda key: key.name)
}

# Three replicas can lose one without losing a write (architecture, "Defaults that protect people").
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
MIN_INSYNC_FROM_THREE_REPLICAS: Final = 2

_LISTENER_PREFIX: Final = re.compile(r"listener\.name\.[^.]+\.(?:(?:gssapi|plain|scram-sha-\d+|oauthbearer)\.)?")


class UnknownConfig(Exception):
    """No such key; the text says which one may have been meant."""


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ResolvedConfig(NamedTuple):
    """A key's value in force, where it comes from, and what it shadows (strongest first)."""

    key: ConfigKey
    value: ConfigValue
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def text(self) -> str | None:
        return None if self.key.sensitive else render(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLayers:
    """The texts that are set for one broker, strongest layer first."""

    dynamic: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)

    def each(self) -> Iterator[tuple[ConfigSource, Mapping[str, str]]]:
        yield ConfigSource.DYNAMIC_BROKER, self.dynamic
        yield ConfigSource.DYNAMIC_DEFAULT_BROKER, self.dynamic_default
        yield ConfigSource.STATIC_BROKER, self.static


class BrokerConfig(Mapping[str, ConfigValue]):
    """A node's own settings, typed: every broker key has a value, set or default."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts: Final = dict(texts)
        self._values = {name: parse(broker_key(name), text) for name, text in texts.items()}

    def __getitem__(self, name: str) -> ConfigValue:
        if name in self._values:
            return self._values[name]
        return BROKER_CONFIGS[name].default

    def __iter__(self) -> Iterator[str]:
        return iter(BROKER_CONFIGS)

    def __len__(self) -> int:
        return len(BROKER_CONFIGS)

    def integer(self, name: str) -> int:
        value = self[name]
        invariant(isinstance(value, int), "an integer setting has a value", name=name, value=value)
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        return self[name] is True

    def string(self, name: str) -> str | None:
        value = self[name]
        return None if value is None else str(value)

    def listing(self, name: str) -> tuple[str, ...]:
        value = self[name]
        return value if isinstance(value, tuple) else ()


def parse_broker_settings(settings: Mapping[str, object]) -> BrokerConfig:
    """Settings from TOML or the environment: nested names already joined by dots, values of TOML's types.

    Raises `UnknownConfig` or `InvalidConfigValue`: a node refuses to start rather than guess.
    """
    return BrokerConfig({name: _as_text(value) for name, value in settings.items()})


def _as_text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return ",".join(str(item) for item in value)
        case _:
            return str(value)


# ---- keys ----


def topic_key(name: str) -> ConfigKey:
    key = TOPIC_CONFIGS.get(name)
    if key is None:
        raise UnknownConfig(_unknown("topic", name, TOPIC_CONFIGS))
    return key


def group_key(name: str) -> ConfigKey:
    key = GROUP_CONFIGS.get(name)
    if key is None:
        raise UnknownConfig(_unknown("group", name, GROUP_CONFIGS))
    return key


def broker_key(name: str) -> ConfigKey:
    """Also for `listener.name.<listener>.<key>`, which sets a key for one listener."""
    key = BROKER_CONFIGS.get(name)
    if key is None and (prefix := _LISTENER_PREFIX.match(name)) is not None:
        key = BROKER_CONFIGS.get(name[prefix.end() :])
    if key is None:
        raise UnknownConfig(_unknown("broker", name, BROKER_CONFIGS))
    return key


def _unknown(kind: str, name: str, known: Mapping[str, ConfigKey]) -> str:
    import difflib  # Only a mistake pays for it.

    close = difflib.get_close_matches(name, known, n=1)
    return f"Unknown {kind} config name: {name}" + (f"; did you mean {close[0]}?" if close else "")


# ---- checks ----


def check_topic_configs(texts: Mapping[str, str]) -> None:
    """Raises `UnknownConfig` or `InvalidConfigValue` for the first key that a topic cannot have."""
    values = {name: parse(topic_key(name), text) for name, text in texts.items()}
    _check_order(values, "min.compaction.lag.ms", "max.compaction.lag.ms")
    if values.get("remote.storage.enable") is True:
        _check_local_retention(values, "local.retention.ms", "retention.ms")
        _check_local_retention(values, "local.retention.bytes", "retention.bytes")


def check_broker_configs(texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        parse(broker_key(name), text)


def check_group_configs(texts: Mapping[str, str], broker: BrokerLayers) -> None:
    """Raises as `check_topic_configs` does, also for what the broker does not allow to any group."""
    for name, text in texts.items():
        _check_bounds(name, parse(group_key(name), text), broker)
    for kind in GROUP_KINDS:
        heartbeat, session = (
            resolve_group_config(GROUP_CONFIGS[f"{kind}.{setting}"], texts, broker)
            for setting in ("heartbeat.interval.ms", "session.timeout.ms")
        )
        if _integer(heartbeat.value) >= _integer(session.value):
            raise InvalidConfigValue(f"{session.key.name} must be greater than {heartbeat.key.name}")


def is_live(name: str) -> bool:
    return broker_key(name).update_mode is UpdateMode.LIVE


def _check_order(values: Mapping[str, ConfigValue], lower_name: str, upper_name: str) -> None:
    lower = values.get(lower_name, TOPIC_CONFIGS[lower_name].default)
    upper = values.get(upper_name, TOPIC_CONFIGS[upper_name].default)
    assert isinstance(lower, int) and isinstance(upper, int)
    if lower > upper:
        raise InvalidConfigValue(f"{lower_name} ({lower}) must not exceed {upper_name} ({upper})")


def _check_bounds(name: str, value: ConfigValue, broker: BrokerLayers) -> None:
    lower_key, upper_key = bound_keys_of(name)
    for bound_key, is_beyond, word in ((lower_key, operator.lt, "greater"), (upper_key, operator.gt, "less")):
        if bound_key in BROKER_CONFIGS:
            bound = _integer(resolve_broker_config(BROKER_CONFIGS[bound_key], broker).value)
            if is_beyond(_integer(value), bound):
                raise InvalidConfigValue(f"{name} must be {word} than or equal to {bound_key} ({bound})")


def _integer(value: ConfigValue) -> int:
    assert isinstance(value, int)
    return value


def _check_local_retention(values: Mapping[str, ConfigValue], local_name: str, total_name: str) -> None:
    local = values.get(local_name, TOPIC_CONFIGS[local_name].default)
    total = values.get(total_name, TOPIC_CONFIGS[total_name].default)
    assert isinstance(local, int) and isinstance(total, int)
    if local == -2 or total == -1:  # -2 follows the total; -1 keeps everything.
        return
    if local == -1 or local > total:
        raise InvalidConfigValue(f"{local_name} ({local}) must not exceed {total_name} ({total})")


# ---- resolution ----


def resolve_topic_config(
    key: ConfigKey, topic: Mapping[str, str], broker: BrokerLayers, replication_factor: int
) -> ResolvedConfig:
    found: list[tuple[ConfigSynonym, ConfigValue]] = []
    if (text := topic.get(key.name)) is not None:
        found.append((ConfigSynonym(key.name, text, ConfigSource.DYNAMIC_TOPIC), parse(key, text)))
    synonyms = TOPIC_SYNONYMS.get(key.name, ())
    for source, layer in broker.each():
        if key.name == MIN_INSYNC_REPLICAS and source is ConfigSource.STATIC_BROKER:
            continue  # One node's settings are not another's: metadata/min_isr.py.
        for synonym in synonyms:
            if (text := layer.get(synonym.broker_key)) is not None:
                value = synonym.to_topic_unit(parse(BROKER_CONFIGS[synonym.broker_key], text))
                found.append((ConfigSynonym(synonym.broker_key, text, source), value))
    found.append(_topic_default(key, synonyms, replication_factor))
    (first, value), *_ = found
    return ResolvedConfig(key, value, first.source, tuple(entry for entry, _ in found))


def _topic_default(
    key: ConfigKey, synonyms: tuple[Synonym, ...], replication_factor: int
) -> tuple[ConfigSynonym, ConfigValue]:
    if key.name == MIN_INSYNC_REPLICAS and replication_factor >= 3:
        ours = MIN_INSYNC_FROM_THREE_REPLICAS
        return ConfigSynonym(key.name, str(ours), ConfigSource.DEFAULT), ours
    # Of several synonyms the last one has the default (log.retention.hours), the others are unset.
    name, default = (key.name, key.default)
    if synonyms:
        name = synonyms[-1].broker_key
        default = BROKER_CONFIGS[name].default
    return ConfigSynonym(name, render(default), ConfigSource.DEFAULT), key.default


def resolve_broker_config(key: ConfigKey, broker: BrokerLayers) -> ResolvedConfig:
    found = [
        (ConfigSynonym(key.name, None if key.sensitive else text, source), parse(key, text))
        for source, layer in broker.each()
        if (text := layer.get(key.name)) is not None
    ]
    if key.default is not None or not found:
        shown = ConfigSynonym(key.name, render(key.default), ConfigSource.DEFAULT)
        found.append((shown, key.default))
    (first, value), *_ = found
    shadowed = tuple(entry for entry, _ in found if entry.value is not None or key.sensitive)
    return ResolvedConfig(key, value, first.source, shadowed)


def resolve_group_config(key: ConfigKey, group: Mapping[str, str], broker: BrokerLayers) -> ResolvedConfig:
    """Of any group: one without configurations of its own, and also one that there is not."""
    inherited_key = BROKER_CONFIGS.get(broker_key_of(key.name), key)
    inherited = resolve_broker_config(inherited_key, broker)
    if (text := group.get(key.name)) is None:
        return inherited._replace(key=key)
    own = ConfigSynonym(key.name, text, ConfigSource.DYNAMIC_GROUP)
    return ResolvedConfig(key, parse(key, text), own.source, (own, *inherited.synonyms))


def log_defaults(broker: BrokerLayers, replication_factor: int) -> dict[str, ConfigValue]:
    """The values in force for a topic that sets nothing: computed once, shared by thousands of topics."""
    return {
        name: resolve_topic_config(key, {}, broker, replication_factor).value for name, key in TOPIC_CONFIGS.items()
    }


def log_config_for(topic: Mapping[str, str], defaults: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    """Every topic key's typed value in force, by Kafka's names: what a log is configured with."""
    values = {**defaults, **{name: parse(topic_key(name), text) for name, text in topic.items()}}
    internal_bytes = values.pop("internal.segment.bytes")
    if internal_bytes is not None:
        values["segment.bytes"] = internal_bytes
    return values


__all__ = [
    "BROKER_CONFIGS",
    "GROUP_CONFIGS",
    "TOPIC_CONFIGS",
    "BrokerConfig",
    "BrokerLayers",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "InvalidConfigValue",
    "ResolvedConfig",
    "UnknownConfig",
    "broker_key",
    "check_broker_configs",
    "check_group_configs",
    "check_topic_configs",
    "group_key",
    "is_live",
    "log_config_for",
    "log_defaults",
    "parse_broker_settings",
    "resolve_broker_config",
    "resolve_group_config",
    "resolve_topic_config",
    "topic_key",
]
