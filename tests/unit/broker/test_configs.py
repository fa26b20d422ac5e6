"""Configurations described, changed and listed through the API."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.handlers.configs import APIS
from ottla.metadata.config_key import ConfigSource, ConfigType
from ottla.metadata.configs import BROKER_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.admin_node import AdminNode, ask
from tests.unit.metadata.cluster import topic_records

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def describe(node, resource_type, name, *, keys=None, version=4, synonyms=False, documentation=False):
    request = api.DescribeConfigsRequest(
        resources=[
            api.DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=resource_type, resource_name=name, configuration_keys=keys
            )
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    (result,) = ask(node, APIS, ApiKey.DESCRIBE_CONFIGS, request, version=version).results
    assert (result.resource_type, result.resource_name) == (resource_type, name)
    return result


def configs(*arguments, **more):
    result = describe(*arguments, **more)
    assert (result.error_code, result.error_message) == (0, None)
    return {one.name: one for one in result.configs}


def code(result):
    return ErrorCode(result.error_code).name


def set_config(node, resource_type, name, key, value):
    request = api.IncrementalAlterConfigsRequest(
        resources=[
            api.IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[api.IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=0, value=value)],
            )
        ]
    )
    (result,) = ask(node, APIS, ApiKey.INCREMENTAL_ALTER_CONFIGS, request).responses
    return result


@pytest.fixture
def node():
    return AdminNode(*topic_records("orders"), static={"num.io.threads": 16, "ssl.key.password": "hunter2"})


# ---- topics ----


@pytest.mark.parametrize("version", range(1, 5))
def test_every_topic_key_with_its_default(node, version):
    found = configs(node, TOPIC, "orders", version=version)
    assert set(found) == {key.name for key in TOPIC_CONFIGS.values() if not key.internal}
    retention = found["retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only) == ("604800000", ConfigSource.DEFAULT, False)
    assert retention.config_type == (ConfigType.LONG if version >= 3 else 0)
    assert found["cleanup.policy"].value == "delete"


def test_a_value_and_what_it_shadows(node):
    assert set_config(node, TOPIC, "orders", "retention.ms", "5").error_code == 0
    assert set_config(node, BROKER, "", "log.retention.ms", "6").error_code == 0
    retention = configs(node, TOPIC, "orders", synonyms=True)["retention.ms"]
    assert (retention.value, retention.config_source) == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert [(one.name, one.value, one.source) for one in retention.synonyms] == [
        ("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.ms", "6", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_synonyms_and_documentation_only_when_asked(node):
    plain = configs(node, TOPIC, "orders")["retention.ms"]
    assert (plain.synonyms, plain.documentation) == ([], None)
    full = configs(node, TOPIC, "orders", synonyms=True, documentation=True)["retention.ms"]
    assert full.synonyms
    assert full.documentation == TOPIC_CONFIGS["retention.ms"].documentation


@pytest.mark.parametrize(("keys", "count"), [(["retention.ms"], 1), (["nonsense"], 0)])
def test_only_the_keys_asked_for(node, keys, count):
    assert len(configs(node, TOPIC, "orders", keys=keys)) == count


def test_an_internal_key_is_listed_once_it_is_set(node):
    set_config(node, TOPIC, "orders", "internal.segment.bytes", "100")
    assert configs(node, TOPIC, "orders")["internal.segment.bytes"].value == "100"


def test_topics_that_are_none(node):
    assert code(describe(node, TOPIC, "nobody")) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert code(describe(node, TOPIC, "no body")) == "INVALID_TOPIC_EXCEPTION"


# ---- brokers ----


def test_every_broker_key_and_where_it_comes_from(node):
    found = configs(node, BROKER, "1")
    assert set(found) >= {key.name for key in BROKER_CONFIGS.values() if not key.internal}
    threads = found["num.io.threads"]
    assert (threads.value, threads.config_source, threads.read_only) == ("16", ConfigSource.STATIC_BROKER, True)
    retention = found["log.retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only) == (None, ConfigSource.DEFAULT, False)


def test_a_secret_is_marked_and_not_told(node):
    password = configs(node, BROKER, "1", synonyms=True)["ssl.key.password"]
    assert (password.value, password.is_sensitive) == (None, True)
    assert [one.value for one in password.synonyms] == [None]


def test_a_listeners_own_key_is_listed_by_its_name():
    node = AdminNode(static={"listener.name.outside.ssl.client.auth": "required"})
    assert configs(node, BROKER, "1")["listener.name.outside.ssl.client.auth"].value == "required"


def test_the_default_of_all_brokers_lists_what_is_set_there(node):
    assert configs(node, BROKER, "") == {}
    set_config(node, BROKER, "", "log.retention.ms", "6")
    (only,) = configs(node, BROKER, "").values()
    assert (only.name, only.value, only.config_source) == (
        "log.retention.ms", "6", ConfigSource.DYNAMIC_DEFAULT_BROKER)  # fmt: skip


def test_a_broker_tells_only_its_own():
    assert code(describe(AdminNode(brokers=2), BROKER, "2")) == "INVALID_REQUEST"
    assert code(describe(AdminNode(), BROKER, "x")) == "INVALID_REQUEST"


@pytest.mark.parametrize("resource_type", [BROKER_LOGGER, CLIENT_METRICS, 99])
def test_other_resources_are_refused_with_a_reason(node, resource_type):
    result = describe(node, resource_type, "1")
    assert code(result) == "INVALID_REQUEST"
    assert result.error_message


# ---- groups ----


def test_every_group_key_of_a_group_that_nobody_knows(node):
    found = configs(node, GROUP, "till")
    assert set(found) == set(GROUP_CONFIGS)
    timeout = found["consumer.session.timeout.ms"]
    assert (timeout.value, timeout.config_source, timeout.read_only) == ("45000", ConfigSource.DEFAULT, False)
    assert timeout.config_type == ConfigType.INT


def test_a_groups_value_and_what_it_shadows():
    node = AdminNode(static={"group.share.heartbeat.interval.ms": "6000"})
    assert configs(node, GROUP, "till")["share.heartbeat.interval.ms"].value == "6000"
    assert set_config(node, GROUP, "till", "share.heartbeat.interval.ms", "7000").error_code == 0
    interval = configs(node, GROUP, "till", synonyms=True)["share.heartbeat.interval.ms"]
    assert (interval.value, interval.config_source) == ("7000", ConfigSource.DYNAMIC_GROUP)
    assert [(one.name, one.value, one.source) for one in interval.synonyms] == [
        ("share.heartbeat.interval.ms", "7000", ConfigSource.DYNAMIC_GROUP),
        ("group.share.heartbeat.interval.ms", "6000", ConfigSource.STATIC_BROKER),
        ("group.share.heartbeat.interval.ms", "5000", ConfigSource.DEFAULT),
    ]
    assert configs(node, GROUP, "other")["share.heartbeat.interval.ms"].value == "6000"


def test_a_group_without_a_name_is_refused(node):
    assert code(describe(node, GROUP, "")) == "INVALID_REQUEST"


def test_groups_with_configurations_are_listed(node):
    assert listed(node, GROUP) == []
    for name in ("till", "audit"):
        set_config(node, GROUP, name, "share.auto.offset.reset", "earliest")
    assert listed(node, GROUP) == [(GROUP, "audit"), (GROUP, "till")]


# ---- changes ----


@pytest.mark.parametrize("version", range(2))
def test_incremental_alter(node, version):
    request = api.IncrementalAlterConfigsRequest(
        resources=[
            api.IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name=name,
                configs=[
                    api.IncrementalAlterConfigsRequest.AlterableConfig(
                        name="cleanup.policy", config_operation=2, value="compact"
                    )
                ],
            )
            for name in ("orders", "nobody")
        ]
    )
    answers = ask(node, APIS, ApiKey.INCREMENTAL_ALTER_CONFIGS, request, version=version).responses
    assert [(one.resource_name, code(one)) for one in answers] == [
        ("orders", "NONE"), ("nobody", "UNKNOWN_TOPIC_OR_PARTITION")]  # fmt: skip
    assert configs(node, TOPIC, "orders")["cleanup.policy"].value == "delete,compact"


@pytest.mark.parametrize("version", range(3))
def test_alter_replaces(node, version):
    set_config(node, TOPIC, "orders", "retention.ms", "5")
    request = api.AlterConfigsRequest(
        resources=[
            api.AlterConfigsRequest.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name="orders",
                configs=[api.AlterConfigsRequest.AlterableConfig(name="segment.ms", value="6")],
            )
        ]
    )
    (answer,) = ask(node, APIS, ApiKey.ALTER_CONFIGS, request, version=version).responses
    assert code(answer) == "NONE"
    found = configs(node, TOPIC, "orders")
    assert (found["retention.ms"].value, found["segment.ms"].value) == ("604800000", "6")


def test_when_the_metadata_cannot_be_written_every_resource_is_told(node):
    node.log.append_error = OSError(28, "full")
    assert code(set_config(node, TOPIC, "orders", "retention.ms", "5")) == "KAFKA_STORAGE_ERROR"
    request = api.AlterConfigsRequest(
        resources=[
            api.AlterConfigsRequest.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name="orders",
                configs=[api.AlterConfigsRequest.AlterableConfig(name="segment.ms", value="6")],
            )
        ]
    )
    (answer,) = ask(node, APIS, ApiKey.ALTER_CONFIGS, request).responses
    assert code(answer) == "KAFKA_STORAGE_ERROR"


# ---- the list ----


def listed(node, *types, version=1):
    request = api.ListConfigResourcesRequest(resource_types=list(types))
    response = ask(node, APIS, ApiKey.LIST_CONFIG_RESOURCES, request, version=version)
    assert response.error_code == 0
    return [(one.resource_type, one.resource_name) for one in response.config_resources]


def test_resources_are_listed_by_type():
    node = AdminNode(*topic_records("b"), *topic_records("a", number=2), brokers=2)
    assert listed(node) == [(TOPIC, "a"), (TOPIC, "b"), (BROKER, "1"), (BROKER, "2")]
    assert listed(node, BROKER, BROKER) == [(BROKER, "1"), (BROKER, "2")]
    assert listed(node, GROUP) == []


def test_version_0_asks_for_client_metrics_of_which_there_are_none():
    assert listed(AdminNode(*topic_records("a")), version=0) == []


def test_an_unknown_type_is_refused():
    request = api.ListConfigResourcesRequest(resource_types=[99])
    response = ask(AdminNode(), APIS, ApiKey.LIST_CONFIG_RESOURCES, request)
    assert code(response) == "UNSUPPORTED_VERSION"
