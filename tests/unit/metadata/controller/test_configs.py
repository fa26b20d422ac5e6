"""Changes of dynamic configurations, key by key and whole."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.metadata.controller.configs import (
    AlterOperation,
    decide_alter_configs,
    decide_incremental_alter_configs,
)
from ottla.metadata.image_parts import ConfigResourceType
from ottla.wire import api
from tests.unit.metadata.cluster import apply, image_of, orders, settings, shown, topic_records

TOPIC, BROKER, GROUP = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP
SET, DELETE, APPEND, SUBTRACT = AlterOperation
Incremental = api.IncrementalAlterConfigsRequest
Whole = api.AlterConfigsRequest


def change(resource_type, name, *operations):
    """`operations`: (key, operation, value)."""
    return Incremental.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            Incremental.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in operations
        ],
    )


def decide(image, *changes, validate_only=False, **more):
    request = Incremental(resources=list(changes), validate_only=validate_only)
    return decide_incremental_alter_configs(image, request, settings(**more))


def alter(image, *operations, **more):
    """Changes topic orders and returns its configurations."""
    decision = decide(image, change(TOPIC, "orders", *operations), **more)
    assert decision.reply.responses[0].error_message is None
    if decision.records:
        apply(image, decision)
    return image.configs_of(TOPIC, "orders")


def refusal(image, *changes):
    decision = decide(image, *changes)
    result = decision.reply.responses[0]
    assert not decision.records
    return ErrorCode(result.error_code).name, result.error_message


@pytest.fixture
def image():
    return image_of(*topic_records("orders"))


def test_set_and_delete(image):
    assert alter(image, ("retention.ms", SET, "5"), ("segment.ms", SET, "6")) == {
        "retention.ms": "5", "segment.ms": "6"}  # fmt: skip
    assert alter(image, ("retention.ms", DELETE, None)) == {"segment.ms": "6"}
    assert alter(image, ("segment.ms", DELETE, "ignored")) == {}


def test_append_and_subtract_work_on_the_value_in_force(image):
    assert alter(image, ("cleanup.policy", APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    assert alter(image, ("cleanup.policy", APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    assert alter(image, ("cleanup.policy", SUBTRACT, "delete")) == {"cleanup.policy": "compact"}


def test_append_adds_to_what_a_topic_inherits_from_the_brokers(image):
    found = alter(image, ("cleanup.policy", APPEND, "delete"), static_broker_configs={"log.cleanup.policy": "compact"})
    assert found == {"cleanup.policy": "compact,delete"}


def test_only_lists_are_appended_to(image):
    code, text = refusal(image, change(TOPIC, "orders", ("retention.ms", APPEND, "5")))
    assert code == "INVALID_CONFIG"
    assert "not LIST" in text


def test_what_stays_as_it_is_is_not_recorded(image):
    alter(image, ("retention.ms", SET, "5"))
    assert not decide(image, change(TOPIC, "orders", ("retention.ms", SET, "5"))).records


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (("retention.msec", SET, "5"), "INVALID_CONFIG"),
        (("retention.msec", DELETE, None), "INVALID_CONFIG"),
        (("retention.ms", SET, "soon"), "INVALID_CONFIG"),
        (("retention.ms", SET, None), "INVALID_REQUEST"),
        (("retention.ms", 9, "5"), "INVALID_REQUEST"),
    ],
)
def test_a_wrong_change_is_refused(image, operation, code):
    assert refusal(image, change(TOPIC, "orders", operation))[0] == code


def test_one_wrong_key_refuses_its_resource_and_no_other():
    image = image_of(*topic_records("orders"), *topic_records("other", number=2))
    decision = decide(
        image,
        change(TOPIC, "orders", ("retention.ms", SET, "5"), ("segment.ms", SET, "x")),
        change(TOPIC, "other", ("retention.ms", SET, "5")),
    )
    assert [one.error_code for one in decision.reply.responses] == [ErrorCode.INVALID_CONFIG, 0]
    assert [record.resource_name for record in decision.records] == ["other"]


def test_a_key_is_changed_once_in_a_request(image):
    twice = change(TOPIC, "orders", ("retention.ms", SET, "5"), ("retention.ms", DELETE, None))
    assert refusal(image, twice)[0] == "INVALID_REQUEST"


def test_a_resource_named_twice_is_refused_both_times(image):
    decision = decide(image, *[change(TOPIC, "orders", ("retention.ms", SET, "5"))] * 2)
    assert [one.error_code for one in decision.reply.responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_values_are_checked_together_with_those_set_before(image):
    alter(image, ("max.compaction.lag.ms", SET, "10"))
    code, text = refusal(image, change(TOPIC, "orders", ("min.compaction.lag.ms", SET, "11")))
    assert code == "INVALID_CONFIG"
    assert "min.compaction.lag.ms (11) must not exceed" in text


def test_validate_only_checks_and_records_nothing(image):
    decision = decide(image, change(TOPIC, "orders", ("retention.ms", SET, "5")), validate_only=True)
    assert decision.reply.responses[0].error_code == 0
    assert not decision.records


# ---- resources ----


def test_a_topic_that_does_not_exist_has_no_configurations(image):
    assert refusal(image, change(TOPIC, "nobody", ("retention.ms", SET, "5")))[0] == "UNKNOWN_TOPIC_OR_PARTITION"


def eligible(image):
    return shown(image).split(" | ")[2]


@pytest.mark.parametrize(("resource_type", "name"), [(TOPIC, "orders"), (BROKER, "")])
def test_with_another_min_isr_nobody_is_eligible_any_more(resource_type, name):
    image = image_of(*orders((1, 2, 3), min_isr=2, isr=[1], eligible_leader_replicas=[2]), brokers=3)
    apply(image, decide(image, change(resource_type, name, ("retention.ms" if name else "log.retention.ms", SET, "5"))))
    assert eligible(image) == "2"
    apply(image, decide(image, change(resource_type, name, ("min.insync.replicas", SET, "3"))))
    assert eligible(image) == "-"


def test_one_brokers_min_isr_is_that_of_all(image):
    code, text = refusal(image, change(BROKER, "1", ("min.insync.replicas", SET, "2")))
    assert code == "INVALID_CONFIG"
    assert "for all brokers" in text


@pytest.mark.parametrize("name", ["", "1"])
def test_brokers_one_by_one_and_all_together(image, name):
    apply(image, decide(image, change(BROKER, name, ("log.retention.ms", SET, "5"))))
    assert image.configs_of(BROKER, name) == {"log.retention.ms": "5"}


@pytest.mark.parametrize("name", ["2", "x", "-1", "٣"])
def test_only_registered_brokers(image, name):
    assert refusal(image, change(BROKER, name, ("log.retention.ms", SET, "5")))[0] == "INVALID_REQUEST"


def test_what_a_running_broker_would_not_apply_is_read_only(image):
    code, text = refusal(image, change(BROKER, "1", ("num.io.threads", SET, "5"), ("log.retention.ms", SET, "5")))
    assert code == "INVALID_REQUEST"
    assert "read-only: num.io.threads." in text


@pytest.mark.parametrize("resource_type", [ConfigResourceType.BROKER_LOGGER, 16, 99])
def test_other_resources_are_refused_with_the_reason(image, resource_type):
    code, text = refusal(image, change(resource_type, "1", ("a", SET, "INFO")))
    assert code == "INVALID_REQUEST"
    assert text


# ---- groups ----


def test_a_groups_configurations_are_recorded_and_the_group_need_not_exist(image):
    decision = decide(image, change(GROUP, "till", ("consumer.session.timeout.ms", SET, "50000")))
    assert decision.reply.responses[0].error_message is None
    apply(image, decision)
    assert image.configs_of(GROUP, "till") == {"consumer.session.timeout.ms": "50000"}
    apply(image, decide(image, change(GROUP, "till", ("consumer.session.timeout.ms", DELETE, None))))
    assert image.configs_of(GROUP, "till") == {}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (
            "consumer.session.timeout.ms",
            "44999",
            "greater than or equal to group.consumer.min.session.timeout.ms (45000)",
        ),
        ("share.session.timeout.ms", "60001", "less than or equal to group.share.max.session.timeout.ms (60000)"),
        ("share.record.lock.duration.ms", "999", "must be at least 1000"),
        ("streams.num.standby.replicas", "3", "less than or equal to group.streams.max.standby.replicas (2)"),
        ("share.auto.offset.reset", "by_duration:-PT1H", "is none of"),
        ("share.auto.offset.reset", "by_duration:P", "is none of"),
        ("consumer.session.timeout", "45000", "did you mean consumer.session.timeout.ms?"),
    ],
)
def test_what_no_group_may_have_is_refused(image, key, value, reason):
    code, text = refusal(image, change(GROUP, "till", (key, SET, value)))
    assert code == "INVALID_CONFIG"
    assert reason in text


@pytest.mark.parametrize("value", ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S"])
def test_where_a_share_group_begins(image, value):
    assert decide(image, change(GROUP, "till", ("share.auto.offset.reset", SET, value))).records


def test_the_bounds_are_the_brokers_own(image):
    static = {"group.consumer.min.session.timeout.ms": "1000", "group.consumer.heartbeat.interval.ms": "2000"}
    wish = change(GROUP, "till", ("consumer.session.timeout.ms", SET, "2000"))
    decision = decide(image, wish, static_broker_configs=static)
    assert decision.reply.responses[0].error_message == (
        "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    )
    wish = change(GROUP, "till", ("consumer.session.timeout.ms", SET, "2001"))
    assert decide(image, wish, static_broker_configs=static).records


def test_all_groups_have_no_defaults_of_their_own(image):
    assert refusal(image, change(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")))[0] == "INVALID_REQUEST"


# ---- the older call ----


def replace(image, name, **configs):
    request = Whole(
        resources=[
            Whole.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name=name,
                configs=[
                    Whole.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
                ],
            )
        ]
    )
    return decide_alter_configs(image, request, settings())


def test_the_older_call_replaces_all(image):
    alter(image, ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))
    decision = replace(image, "orders", segment_ms="7")
    assert {(record.name, record.value) for record in decision.records} == {("retention.ms", None), ("segment.ms", "7")}
    apply(image, decision)
    assert image.configs_of(TOPIC, "orders") == {"segment.ms": "7"}


def test_the_older_call_refuses_the_same_things(image):
    assert replace(image, "orders", segment_ms=None).reply.responses[0].error_code == ErrorCode.INVALID_REQUEST
    assert replace(image, "orders", nonsense="1").reply.responses[0].error_code == ErrorCode.INVALID_CONFIG
    assert replace(image, "nobody").reply.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
