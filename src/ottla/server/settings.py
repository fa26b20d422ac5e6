"""Where a node's settings come from: `ottla up`'s few options, or `ottla serve`'s TOML file and environment.

All end in Kafka's names and go through the one table of configurations (metadata/configs.py), which refuses what it does
not know. In TOML the dots nest (`log.dirs = ["/data"]`); in the environment `log.dirs` is OTTLA_LOG_DIRS.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.metadata.configs import (
    BROKER_CONFIGS,
    BrokerConfig,
    InvalidConfigValue,
    UnknownConfig,
    parse_broker_settings,
)

ENVIRONMENT_PREFIX: Final = "OTTLA_"
DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 9092
PORT_MAX: Final = 65_535
DEFAULT_NODE_ID: Final = 1
LISTENER: Final = "PLAINTEXT"
# Not settings of a broker but of other programs of ours.
_OTHER_ENVIRONMENT: Final = (
    "OTTLA_BOOTSTRAP_",
    "OTTLA_CHAOS_",
    "OTTLA_CONFORMANCE_",
    "OTTLA_DEMO_",
    "OTTLA_PIPELINE_",
    "OTTLA_PROFILE",
    "OTTLA_SPARK_",
)
_OF_A_SINGLE_NODE: Final[Mapping[str, object]] = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
}


class SettingsError(Exception):
    """The settings cannot be used; the text says which one and why."""


def settings_of_up(
    *, data: str, host: str, port: int, overrides: Mapping[str, str], environment: Mapping[str, str]
) -> BrokerConfig:
    """Zero configuration: one node that is controller and broker and creates topics on first use."""
    settings: dict[str, object] = {
        "process.roles": "controller,broker",
        "node.id": DEFAULT_NODE_ID,
        "log.dirs": data,
        "listeners": f"{LISTENER}://{host}:{port}",
        "auto.create.topics.enable": True,
    }
    chosen = {**_from_environment(environment), **overrides}
    if str(chosen.get("default.replication.factor", 1)) == "1":  # Else it is one of a cluster, started by hand.
        settings |= _OF_A_SINGLE_NODE
    return _parse({**settings, **chosen})


def settings_of_serve(
    path: str | None, *, overrides: Mapping[str, str], environment: Mapping[str, str]
) -> BrokerConfig:
    settings: dict[str, object] = {"process.roles": "controller,broker", "auto.create.topics.enable": False}
    if path is not None:
        settings |= read_toml(path)
    settings |= _from_environment(environment)
    settings |= overrides
    missing = [name for name in ("node.id", "log.dirs", "listeners") if name not in settings]
    if missing:
        raise SettingsError(
            f"missing: {', '.join(missing)} (in the file, or as OTTLA_{missing[0].upper().replace('.', '_')})"
        )
    return _parse(settings)


def read_toml(path: str) -> dict[str, object]:
    try:
        return _flatten(tomllib.loads(Path(path).read_text()))
    except FileNotFoundError:
        raise SettingsError(f"no file {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from None


def _flatten(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    names = {ENVIRONMENT_PREFIX + name.upper().replace(".", "_"): name for name in BROKER_CONFIGS}
    settings: dict[str, object] = {}
    for variable, value in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and not variable.startswith(_OTHER_ENVIRONMENT):
            if variable not in names:
                raise SettingsError(f"environment variable {variable} is no setting of a broker")
            settings[names[variable]] = value
    return settings


def _parse(settings: Mapping[str, object]) -> BrokerConfig:
    try:
        return parse_broker_settings(settings)
    except (UnknownConfig, InvalidConfigValue) as error:
        raise SettingsError(str(error)) from None
