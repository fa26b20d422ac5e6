"""What the in-sync replicas promise, when some of them are gone: five nodes, so that the quorum outlives two of them."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.chaos.brokers import wait_until
from tests.chaos.readers import new_consumer
from tests.chaos.writers import QUIET
from tests.cluster.conftest import Report
from tests.cluster.faults import killed, paused
from tests.cluster.load import Load
from tests.cluster.site import Site
from tests.cluster.topics import NO_LEADER
from tests.conformance.client import Client, ClientError
from tests.conformance.commands import Commands
from tests.conformance.ports import free_ports
from tests.conformance.registry import start
from tests.conformance.scraping import scrape

NODES: Final = 5
METRICS_PORTS: Final = dict(zip(range(1, NODES + 1), free_ports(NODES), strict=True))
SETTINGS_OF_NODE: Final = {node_id: {"ottla.metrics.port": port} for node_id, port in METRICS_PORTS.items()}
ANSWER_SECONDS_MAX: Final = 20.0
UNCLEAN_ELECTIONS: Final = "kafka_controller_controllerstats_uncleanleaderelections_total"
UNCLEAN: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


def bystanders(site: Site, count: int) -> list[int]:
    """Nodes that do not lead the quorum: what befalls them is only about the partition."""
    return [node.id for node in site.cluster.nodes if node.id != site.controller()][:count]


def write_once(site: Site, topic: str, **settings: Any) -> KafkaError | None:
    """What a producer that does not try again is told."""
    answers: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        answers.append(error)

    hasty = {"acks": "all", "retries": 0, "linger.ms": 0, **settings}
    producer = Producer({"bootstrap.servers": site.bootstrap, **hasty, **QUIET})
    producer.produce(topic, b"once", on_delivery=on_delivery)
    assert producer.flush(ANSWER_SECONDS_MAX) == 0, "no answer"
    return answers[0]


def metric(site: Site, node_id: int, name: str) -> float:
    return scrape(site.node(node_id).host, METRICS_PORTS[node_id])[name]


def code(error: KafkaError | None) -> int:
    return KafkaError.NO_ERROR if error is None else error.code()


def test_scene_42_writes_are_refused_while_the_isr_is_below_its_minimum(site: Site, topic_name: str) -> None:
    leader, follower = bystanders(site, 2)
    site.topics.create_on(topic_name, [leader, follower], config={"min.insync.replicas": "2"})
    with paused(site, follower):
        assert code(write_once(site, topic_name)) == KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert code(write_once(site, topic_name)) == KafkaError.NOT_ENOUGH_REPLICAS
    site.topics.wait_until(topic_name, lambda state: len(state.isr) == 2)
    assert write_once(site, topic_name) is None


def test_scene_43_the_isr_shrinks_its_leader_dies_and_nothing_is_lost(
    site: Site, topic_name: str, report: Report
) -> None:
    first, second, third = bystanders(site, 3)
    site.topics.create_on(topic_name, [first, second, third], config={"min.insync.replicas": "2"})
    with Load(site.bootstrap, topic_name) as load:
        site.node(third).kill()
        site.topics.wait_until(topic_name, lambda state: state.isr == {first, second})
        load.wait_for(100)
        site.node(first).kill()
        site.topics.wait_until(topic_name, lambda state: state.leader == second)
        assert code(write_once(site, topic_name)) == KafkaError.NOT_ENOUGH_REPLICAS
        site.node(third).start()
        load.wait_for(100)
        site.node(first).start()
        site.topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
    report(load.require_clean())


def test_scene_44_the_last_replica_dies_and_comes_back_with_everything(
    site: Site, topic_name: str, report: Report
) -> None:
    last, other = bystanders(site, 2)
    site.topics.create_on(topic_name, [last, other], config={"min.insync.replicas": "1"})
    with Load(site.bootstrap, topic_name) as load:
        with killed(site, other):
            site.topics.wait_until(topic_name, lambda state: state.isr == {last})
            load.wait_for(100)
            site.node(last).kill()
            site.topics.wait_until(topic_name, lambda state: state.leader == NO_LEADER)
        # The other one is back, but may lack what the last one acknowledged: it must not lead (scene 47).
        assert [state.leader for state in site.topics.states(topic_name)] == [NO_LEADER]
        site.node(last).start()
        load.wait_for(100)
    report(load.require_clean())


def test_scene_44_an_unclean_election_brings_the_partition_back_and_the_loss_is_counted(
    site: Site, topic_name: str, report: Report
) -> None:
    last, other = bystanders(site, 2)
    unclean_before = metric(site, site.controller(), UNCLEAN_ELECTIONS)
    site.topics.create_on(topic_name, [last, other], config=UNCLEAN)
    with Load(site.bootstrap, topic_name) as load:
        site.node(other).kill()
        site.topics.wait_until(topic_name, lambda state: state.isr == {last})
        load.wait_for(100)
    site.node(last).kill()
    site.node(other).start()
    site.topics.wait_until(topic_name, lambda state: state.leader == other)
    site.node(last).start()
    site.topics.wait_until(topic_name, lambda state: len(state.isr) == 2)
    verdict = load.verdict()
    assert verdict.violations["lost"] > 0, "the other one cannot have had what was written without it"
    told = f"unclean elections: 1 partitions are led by replicas that may lack committed records: {topic_name}-0"
    assert told in site.node(site.controller()).log
    assert f"{topic_name}-0: cut back from" in site.node(last).log
    assert (
        metric(site, site.controller(), UNCLEAN_ELECTIONS) > unclean_before
    )  # Other tests left partitions there, too.
    assert metric(site, last, "ottla_log_cut_records_total") > 0
    report(load.figures(verdict))


@pytest.fixture
def java(site: Site) -> Iterator[Client]:
    with start("java", site.bootstrap) as client:
        yield client


def test_scenes_47_and_60_without_an_in_sync_replica_everybody_is_told_and_an_unclean_leader_is_noticed(
    site: Site, topic_name: str, java: Client
) -> None:
    last, other = bystanders(site, 2)
    site.topics.create_on(topic_name, [last, other], config={"min.insync.replicas": "1"})
    ops = Commands(site.bootstrap)
    write(site, topic_name, 50)
    with killed(site, other):
        site.topics.wait_until(topic_name, lambda state: state.isr == {last})
        write(site, topic_name, 50)  # Only the last one has these.
        reader = new_consumer(site.bootstrap)
        reader.assign([TopicPartition(topic_name, 0, 0)])
        seen: list[Message] = []
        wait_until(lambda: seen.extend(reader.consume(100, 0.1)) or len(seen) == 100, "everything is read")
        assert len(java.fetch(topic_name, count=100, consumer="reader")) == 100
        site.node(last).kill()
        site.topics.wait_until(topic_name, lambda state: state.leader == NO_LEADER)
    require_told(ops, site, topic_name, last)
    ops.run("topic", "config", topic_name, "--set", "unclean.leader.election.enable=true")
    site.topics.wait_until(topic_name, lambda state: state.leader == other)
    write(site, topic_name, 100)  # Other records, at offsets that the reader has passed, and beyond.
    noticed = wait_for_error(reader)
    assert noticed.code() in (KafkaError._LOG_TRUNCATION, KafkaError._AUTO_OFFSET_RESET), noticed
    reader.close()
    with pytest.raises(ClientError, match="Truncated partitions"):
        java.fetch(topic_name, count=200, consumer="reader")


def require_told(ops: Commands, site: Site, topic: str, last: int) -> None:
    """A partition stays offline though one of its replicas runs, and says so: to operators and to clients."""
    status = ops.json("cluster", "status", "--check", exit_code=1)
    assert f"{topic}-0" in status["offline"]
    assert "offline, neither read nor written" in status["verdict"]
    findings = {each["kind"]: each for each in ops.json("doctor", "--sample", "0.5", exit_code=1)["findings"]}
    assert f"in sync when they went down: {last}" in findings["offline-partitions"]["evidence"]
    described = AdminClient({"bootstrap.servers": site.bootstrap, **QUIET}).list_topics(topic, ANSWER_SECONDS_MAX)
    error = described.topics[topic].partitions[0].error
    assert error is not None and error.code() == KafkaError.LEADER_NOT_AVAILABLE
    assert code(write_once(site, topic, **{"message.timeout.ms": 1_000})) == KafkaError._MSG_TIMED_OUT


def write(site: Site, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": site.bootstrap, "acks": "all", **QUIET})
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(ANSWER_SECONDS_MAX) == 0, "no answer"


def wait_for_error(reader: Consumer) -> KafkaError:
    found: list[KafkaError] = []

    def look() -> bool:
        found.extend(error for message in reader.consume(1_000, 0.1) if (error := message.error()) is not None)
        return bool(found)

    wait_until(look, "the reader is told")
    return found[0]
