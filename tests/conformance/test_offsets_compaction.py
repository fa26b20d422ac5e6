"""`__consumer_offsets` is compacted like any other topic: one record a key is left, and it is the last one (scene 32)."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ottla.testing
from tests.conformance.client import Client
from tests.conformance.compacting import CONFIGS, SEGMENT_MS
from tests.conformance.groups import Member, committed, new_group, settled
from tests.conformance.kafka_tools import Tools
from tests.conformance.registry import start
from tests.conformance.waiting import eventually

pytestmark = pytest.mark.needs_ottla

OFFSETS_TOPIC = "__consumer_offsets"
COMMITS = 50
PARTITIONS = range(2)
Join = Callable[..., Member]


@pytest.fixture
def compacting() -> Iterator[ottla.testing.Broker]:
    config = {"log.cleaner.backoff.ms": 100, "offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 100}
    with ottla.testing.broker(config=config) as broker:
        yield broker


@pytest.fixture
def client(compacting: ottla.testing.Broker) -> Iterator[Client]:
    with start("confluent-kafka", compacting.bootstrap_servers) as started:
        yield started


def commit_often(join: Join, client: Client, group: str, topic: str) -> dict[int, int]:
    """The last offsets of many."""
    member = join(client, group, topic, auto_commit=False)
    settled([member], partitions=len(PARTITIONS))
    for number in range(1, COMMITS + 1):
        last = {index: number + index for index in PARTITIONS}
        member.commit(topic, last)
    member.leave()
    return last


def roll(client: Client, topic: str) -> None:
    """Time alone rolls nothing: the next record does, and stays alone in its segment."""
    time.sleep(2 * SEGMENT_MS / 1000)
    client.call("commit_alone", group=new_group(), offsets=[{"topic": topic, "partition": 0, "offset": 1}])


def decoded(tools: Tools, data_dir: Path) -> list[tuple[str, str]]:
    """Keys and values of every record, as kafka-dump-log spells them."""
    logs = sorted(data_dir.rglob(f"{OFFSETS_TOPIC}-0/*.log"))
    printed = "".join(tools.dump(log, "--offsets-decoder").out for log in logs)
    return re.findall(r"key: (\{.*?\}) payload: (\{.*\}|<DELETE>)", printed)


def test_scene_32_one_record_a_key_is_left_and_it_is_the_last(
    tools: Tools, join: Join, compacting: ottla.testing.Broker, client: Client, topic_name: str
) -> None:
    client.create_topic(topic_name, partitions=len(PARTITIONS))
    group = new_group()
    last = commit_often(join, client, group, topic_name)
    written = [key for key, _ in decoded(tools, Path(compacting.data_dir)) if f'"{group}"' in key]
    assert len(written) >= COMMITS * len(PARTITIONS)
    client.change_topic_configs(OFFSETS_TOPIC, *(("SET", key, value) for key, value in CONFIGS.items()))
    roll(client, topic_name)

    def compacted() -> list[tuple[str, str]]:
        found = decoded(tools, Path(compacting.data_dir))
        assert set(Counter(key for key, _ in found).values()) == {1}
        return found

    left = dict(eventually(compacted))
    for index in PARTITIONS:
        [value] = [value for key, value in left.items() if group in key and f'"partition":{index}' in key]
        assert f'"offset":{last[index]},' in value
    compacting.kill()
    compacting.restart()
    assert eventually(lambda: committed(client, group, topic_name, PARTITIONS)) == last
