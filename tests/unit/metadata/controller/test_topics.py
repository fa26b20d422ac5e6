"""The creation of topics, decision by decision."""

from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode
from ottla.metadata.config_key import ConfigSource
from ottla.metadata.configs import TOPIC_CONFIGS
from ottla.metadata.controller.topics import decide_create_topics
from ottla.wire import api
from tests.unit.metadata.cluster import DIRECTORY_ID, apply, broker_record, image_of, settings, topic_records

Topic = api.CreateTopicsRequest.CreatableTopic
Assignment = api.CreateTopicsRequest.CreatableReplicaAssignment
Config = api.CreateTopicsRequest.CreatableTopicConfig


def topic(name="orders", partitions=1, factor=1, **more):
    return Topic(name=name, num_partitions=partitions, replication_factor=factor, **more)


def manual(*replica_lists, name="orders"):
    assignments = [Assignment(partition_index=n, broker_ids=list(one)) for n, one in enumerate(replica_lists)]
    return topic(name, -1, -1, assignments=assignments)


def decide(image, *topics, validate_only=False, describe_configs=False, **changes):
    request = api.CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return decide_create_topics(image, request, settings(**changes), describe_configs=describe_configs)


def refusal(image, *topics, **changes):
    """Code and text of the only topic asked for."""
    decision = decide(image, *topics, **changes)
    (result,) = decision.reply.topics
    assert not decision.records
    return ErrorCode(result.error_code).name, result.error_message


def test_a_topic_is_recorded_with_its_configurations_and_partitions():
    image = image_of()
    decision = decide(image, topic(partitions=2, configs=[Config(name="retention.ms", value="5")]))
    assert [type(record).__name__ for record in decision.records] == [
        "TopicRecord", "ConfigRecord", "PartitionRecord", "PartitionRecord"]  # fmt: skip
    apply(image, decision)
    partition = image.topics["orders"].partitions[1]
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert (partition.leader_epoch, partition.partition_epoch, partition.directories) == (0, 0, (DIRECTORY_ID,))
    (result,) = decision.reply.topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)
    assert result.topic_id == image.topics["orders"].id == UUID(int=1000)
    assert result.configs is None


def test_minus_one_asks_for_the_defaults():
    decision = decide(image_of(brokers=3), topic(partitions=-1, factor=-1),
                      default_partition_count=4, default_replication_factor=3)  # fmt: skip
    (result,) = decision.reply.topics
    assert (result.num_partitions, result.replication_factor) == (4, 3)
    assert len(decision.records) == 5


def test_the_answer_describes_every_configuration_when_asked():
    decision = decide(
        image_of(brokers=3), topic(factor=3, configs=[Config(name="retention.ms", value="5")]), describe_configs=True
    )
    configs = {one.name: one for one in decision.reply.topics[0].configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert configs["min.insync.replicas"].value == "2"
    assert set(configs) == {key.name for key in TOPIC_CONFIGS.values() if not key.internal}


def test_validate_only_answers_and_records_nothing():
    decision = decide(image_of(), topic(), validate_only=True)
    assert decision.reply.topics[0].error_code == 0
    assert decision.records == []


@pytest.mark.parametrize("name", ["", "..", "a b", "x" * 250])
def test_an_illegal_name_is_refused(name):
    assert refusal(image_of(), topic(name))[0] == "INVALID_TOPIC_EXCEPTION"


def test_an_existing_topic_is_not_created_again():
    code, text = refusal(image_of(*topic_records("orders")), topic())
    assert (code, text) == ("TOPIC_ALREADY_EXISTS", "Topic 'orders' already exists.")


def test_a_name_that_differs_only_in_dots_and_underscores_is_refused():
    code, text = refusal(image_of(*topic_records("a.b")), topic("a_b"))
    assert code == "INVALID_TOPIC_EXCEPTION"
    assert "'a.b'" in text


def test_names_of_one_request_must_not_collide_either():
    decision = decide(image_of(), topic("a.b"), topic("a_b"))
    assert [one.error_code for one in decision.reply.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert len(decision.records) == 2


def test_the_metadata_log_is_not_a_topic():
    assert refusal(image_of(), topic("__cluster_metadata"))[0] == "INVALID_REQUEST"


def test_a_topic_named_twice_is_refused_once_and_not_created():
    decision = decide(image_of(), topic(), topic(), topic("other"))
    assert [(one.name, one.error_code) for one in decision.reply.topics] == [
        ("orders", ErrorCode.INVALID_REQUEST), ("other", 0)]  # fmt: skip


@pytest.mark.parametrize("count", [0, -2])
def test_there_is_at_least_one_partition(count):
    assert refusal(image_of(), topic(partitions=count))[0] == "INVALID_PARTITIONS"


@pytest.mark.parametrize("factor", [0, -2])
def test_there_is_at_least_one_replica(factor):
    assert refusal(image_of(), topic(factor=factor))[0] == "INVALID_REPLICATION_FACTOR"


def test_more_replicas_than_brokers_are_refused():
    code, text = refusal(image_of(), topic(factor=3))
    assert code == "INVALID_REPLICATION_FACTOR"
    assert text == "The replication factor of 3 cannot be reached because only 1 broker(s) are registered."


def test_a_fenced_broker_does_not_lead_and_is_not_in_sync():
    image = image_of(broker_record(2, fenced=True))
    apply(image, decide(image, topic(factor=2)))
    partition = image.topics["orders"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (1,), 1)


def test_no_topic_without_a_broker_that_serves():
    assert refusal(image_of(broker_record(1, fenced=True), brokers=0), topic())[0] == "INVALID_REPLICATION_FACTOR"


def test_a_broker_with_several_directories_chooses_itself():
    image = image_of(broker_record(1, log_dirs=[UUID(int=200), UUID(int=201)]), brokers=0)
    apply(image, decide(image, topic()))
    assert image.topics["orders"].partitions[0].directories == (UUID(int=1),)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (Config(name="retention.msec", value="5"),
         "Unknown topic config name: retention.msec; did you mean retention.ms?"),
        (Config(name="retention.ms", value="-5"),
         "Invalid value -5 for configuration retention.ms: must be at least -1"),
        (Config(name="cleanup.policy", value="burn"),
         "Invalid value burn for configuration cleanup.policy: 'burn' is none of compact, delete"),
        (Config(name="retention.ms", value=None), "Null value not supported for topic config retention.ms."),
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_refused_with_the_reason(config, text):
    assert refusal(image_of(), topic(configs=[config])) == ("INVALID_CONFIG", text)


def test_a_configuration_is_given_once():
    twice = [Config(name="retention.ms", value="5"), Config(name="retention.ms", value="6")]
    assert refusal(image_of(), topic(configs=twice))[0] == "INVALID_CONFIG"


# ---- manual assignments ----


def test_a_manual_assignment_is_taken_as_it_is():
    image = image_of(brokers=3)
    apply(image, decide(image, manual((2, 1), (3, 2))))
    assert [one.replicas for one in image.topics["orders"].partitions.values()] == [(2, 1), (3, 2)]
    assert [one.leader for one in image.topics["orders"].partitions.values()] == [2, 3]


@pytest.mark.parametrize(
    ("replica_lists", "reason"),
    [
        ([()], "empty replica list"),
        ([(1, 1)], "names a broker twice"),
        ([(1, 2), (1,)], "1 replica(s) where other partitions have 2"),
        ([(1, 9)], "broker 9 is not registered"),
    ],
)
def test_an_impossible_assignment_is_refused(replica_lists, reason):
    code, text = refusal(image_of(brokers=2), manual(*replica_lists))
    assert code == "INVALID_REPLICA_ASSIGNMENT"
    assert reason in text


def test_an_assignment_needs_a_broker_that_serves():
    image = image_of(broker_record(2, fenced=True))
    code, text = refusal(image, manual((2,)))
    assert code == "INVALID_REPLICA_ASSIGNMENT"
    assert "fenced" in text


@pytest.mark.parametrize("numbers", [(1,), (0, 2), (0, 0)])
def test_partitions_of_an_assignment_are_numbered_from_zero(numbers):
    assignments = [Assignment(partition_index=number, broker_ids=[1]) for number in numbers]
    assert refusal(image_of(), topic("orders", -1, -1, assignments=assignments))[0] == "INVALID_REPLICA_ASSIGNMENT"


@pytest.mark.parametrize(("count", "factor"), [(1, -1), (-1, 1)])
def test_counts_and_an_assignment_exclude_each_other(count, factor):
    assignments = [Assignment(partition_index=0, broker_ids=[1])]
    assert refusal(image_of(), topic("orders", count, factor, assignments=assignments))[0] == "INVALID_REQUEST"


# ---- bounds ----


@pytest.mark.parametrize("count", [10_000, 2**31 - 1])
def test_a_topic_too_large_for_one_batch_is_refused(count):
    code, text = refusal(image_of(), topic(partitions=count))
    assert code == "POLICY_VIOLATION"
    assert "10000 metadata records" in text


def test_the_request_is_filled_up_to_the_bound_and_the_rest_refused():
    decision = decide(image_of(), topic("first", 6000), topic("second", 6000), topic("third", 10))
    assert [one.error_code for one in decision.reply.topics] == [0, ErrorCode.POLICY_VIOLATION, 0]
    assert len(decision.records) == 6001 + 11
