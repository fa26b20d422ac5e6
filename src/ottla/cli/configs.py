"""Configuration entries as a broker describes them: value, where it comes from, what it is for."""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from ottla.base.errors import ErrorCode
from ottla.cli.connection import Connection
from ottla.client import topics
from ottla.client.errors import coded_error
from ottla.client.raw.cluster import Cluster
from ottla.wire import api
from ottla.wire.apis import ApiKey

TOPIC_RESOURCE: Final = 2
HTML_TAG: Final = re.compile(r"</?[a-z][^>]*>")


class ConfigSource(IntEnum):
    """Who set a value. Kafka's names and numbers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5

    @classmethod
    def _missing_(cls, value: object) -> "ConfigSource":
        return cls.UNKNOWN


SOURCE_TEXTS: Final = {
    ConfigSource.UNKNOWN: "unknown",
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "this broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "broker's file",
    ConfigSource.DEFAULT_CONFIG: "default",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """Nobody set it for this resource in particular."""
        return self.source is not ConfigSource.DYNAMIC_TOPIC_CONFIG

    @property
    def source_text(self) -> str:
        return SOURCE_TEXTS[self.source]

    @property
    def explanation(self) -> str:
        """The documentation without Kafka's HTML."""
        return " ".join(HTML_TAG.sub("", self.documentation or "").split())

    @property
    def first_sentence(self) -> str:
        return self.explanation.partition(". ")[0].removesuffix(".")

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "source": self.source.name,
            "read_only": self.is_read_only,
            "sensitive": self.is_sensitive,
            "documentation": self.documentation,
        }


def of_topic(connection: Connection, topic: str) -> list[ConfigEntry]:
    """By name. With documentation where a broker can be asked directly: librdkafka does not pass it on."""
    if connection.can_ask_directly:
        with connection.cluster() as cluster:
            entries = described_entries(cluster, topic)
    else:
        entries = [undocumented_entry(entry) for entry in connection.admin().describe_configs(topic).values()]
    return sorted(entries, key=lambda entry: entry.name)


def described_entries(cluster: Cluster, topic: str) -> list[ConfigEntry]:
    resource = api.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
    )
    request = api.DescribeConfigsRequest(resources=[resource], include_documentation=True)
    [result] = cluster.ask(ApiKey.DESCRIBE_CONFIGS, request, api.DescribeConfigsResponse).results
    if result.error_code != ErrorCode.NONE:
        raise coded_error(result.error_code, f"describing the configuration of {topic}", result.error_message)
    return [
        ConfigEntry(
            name=entry.name,
            value=entry.value,
            source=ConfigSource(entry.config_source),
            is_read_only=entry.read_only,
            is_sensitive=entry.is_sensitive,
            documentation=entry.documentation,
        )
        for entry in result.configs
    ]


def undocumented_entry(entry: topics.ConfigEntry) -> ConfigEntry:
    return ConfigEntry(
        name=entry.name,
        value=entry.value,
        source=ConfigSource.__members__.get(entry.source, ConfigSource.UNKNOWN),
        is_read_only=entry.is_read_only,
        is_sensitive=entry.is_sensitive,
        documentation=None,
    )
