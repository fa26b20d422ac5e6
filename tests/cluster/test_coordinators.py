"""A coordinator dies: its successor, which has replayed the partition all along, knows the same offsets and members."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.chaos.brokers import wait_until
from tests.chaos.writers import QUIET
from tests.cluster.conftest import Report
from tests.cluster.site import Site
from tests.cluster.stall import Stall

GROUPS = 20
INTERNAL = "__consumer_offsets"
ANSWER_SECONDS_MAX = 30.0


def consumer_of(site: Site, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": site.bootstrap, "group.id": group, "enable.auto.commit": False, **QUIET})


def commit(consumer: Consumer, topic: str, offset: int) -> None:
    def is_done() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException:
            return False
        return True

    wait_until(is_done, f"a commit of {offset}")


def test_every_offset_is_there_though_one_coordinator_after_the_other_dies(site: Site, topic_name: str) -> None:
    site.topics.create(topic_name)
    consumers = [consumer_of(site, f"{topic_name}-{number}") for number in range(GROUPS)]
    for round_number in range(len(site.cluster.nodes)):
        for number, consumer in enumerate(consumers):
            commit(consumer, topic_name, 1_000 * round_number + number)
        victim = site.node(site.group_coordinator(f"{topic_name}-0"))
        victim.kill()
        for number, consumer in enumerate(consumers):
            (found,) = consumer.committed([TopicPartition(topic_name, 0)], timeout=ANSWER_SECONDS_MAX)
            assert found.offset == 1_000 * round_number + number
        victim.restart()
        site.topics.wait_until(INTERNAL, lambda state: len(state.isr) == len(state.replicas))
    for consumer in consumers:
        consumer.close()


def test_a_member_stays_one_when_its_coordinator_dies(site: Site, topic_name: str, report: Report) -> None:
    site.topics.create(topic_name)
    consumer, assigned = consumer_of(site, topic_name), []
    consumer.subscribe([topic_name], on_assign=lambda _, partitions: assigned.append(len(partitions)))
    wait_until(lambda: consumer.poll(0.1) is None and assigned, "the assignment")
    commit(consumer, topic_name, 1)
    committed = 1
    with Stall(lambda: committed) as stall:
        site.node(site.group_coordinator(topic_name)).kill()
        for committed in range(2, 20):
            consumer.poll(0)
            commit(consumer, topic_name, committed)
    assert assigned == [1]
    consumer.close()
    report(f"the coordinator of a group: longest unavailability {stall.longest_ms:.0f} ms")
