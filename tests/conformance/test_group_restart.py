"""The broker is killed or stopped in the middle of a group's life: what was committed stays, and the group works again."""

import time
from collections.abc import Callable, Iterator

import pytest

import ottla.testing
from tests.conformance.client import Client, Record
from tests.conformance.conftest import QUICK_GROUPS
from tests.conformance.groups import Member, committed, described, new_group, settled
from tests.conformance.registry import Can, names_that
from tests.conformance.steady_writer import SteadyWriter
from tests.conformance.under_test import Clients, Keeper
from tests.conformance.waiting import eventually

pytestmark = pytest.mark.needs_ottla

PARTITIONS = 3
SETTINGS = {"session_ms": 6000, "heartbeat_ms": 300, "reset": "earliest", "auto_commit": False}
CLIENTS = names_that(Can.JOIN_GROUPS, Can.COMMIT, Can.OUTLAST_DISCONNECTION)
HELD_MS = 12_000  # Time for three newcomers to join, on a slow machine too.
ROUNDS = 5
Join = Callable[..., Member]
End = Callable[[ottla.testing.Broker], None]

ENDS: dict[str, End] = {"killed": ottla.testing.Broker.kill, "stopped": ottla.testing.Broker.stop}
ended_how = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())


@pytest.fixture(scope="module")
def mortal_broker() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.broker(config=QUICK_GROUPS) as broker:
        yield broker


@pytest.fixture(scope="module")
def mortal_clients(mortal_broker: ottla.testing.Broker) -> Iterator[Clients]:
    clients = Clients(mortal_broker.bootstrap_servers)
    yield clients
    clients.close()


@pytest.fixture
def borrow_mortal(mortal_clients: Clients, request: pytest.FixtureRequest) -> Callable[[str], Client]:
    def borrowed(name: str) -> Client:
        client = mortal_clients[name]
        request.node.user_properties.append(("client", (name, client.version)))
        return client

    return borrowed


@pytest.fixture
def mortal_keeper(mortal_clients: Clients) -> Keeper:
    return Keeper(mortal_clients["confluent-kafka"])


@pytest.fixture
def busy_topic(mortal_keeper: Keeper, topic_name: str) -> str:
    mortal_keeper.create(topic_name, partitions=PARTITIONS)
    one_each(mortal_keeper, topic_name)
    return topic_name


def one_each(keeper: Keeper, topic: str) -> None:
    keeper.produce(topic, [Record(value=b"v", partition=index) for index in range(PARTITIONS)])


def expect_state(keeper: Keeper, group: str, state: str) -> None:
    def is_so() -> None:
        assert keeper.client.call("describe_group", group=group)["state"] == state, group

    eventually(is_so)


def commit_all(member: Member, topic: str, offset: int) -> None:
    """What it owns, at the first or a later attempt: right after a restart the coordinator may still be loading."""
    eventually(lambda: member.commit(topic, dict.fromkeys(member.watch().owned, offset)))


def expect_working(keeper: Keeper, members: list[Member], topic: str, *, read_already: int) -> None:
    """One owner for each partition, commits kept, new records read, new commits taken."""
    [group] = {member.group for member in members}
    settled(members, partitions=PARTITIONS)
    assert committed(keeper.client, group, topic, range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), read_already)
    one_each(keeper, topic)

    def new_ones_read() -> None:
        read = {(record.partition, record.offset) for member in members for record in member.watch().records}
        assert {(index, read_already) for index in range(PARTITIONS)} <= read, described(members)

    eventually(new_ones_read, wait_s=20)
    for member in members:
        commit_all(member, topic, read_already + 1)
    now = committed(keeper.client, group, topic, range(PARTITIONS))
    assert now == dict.fromkeys(range(PARTITIONS), read_already + 1)


@ended_how
def test_a_stable_group_goes_on_in_its_generation(
    mortal_broker: ottla.testing.Broker,
    mortal_keeper: Keeper,
    borrow_mortal: Callable[[str], Client],
    join: Join,
    busy_topic: str,
    end: End,
) -> None:
    crews: list[list[Member]] = []
    for name in CLIENTS:
        group = new_group()
        crews.append([join(borrow_mortal(name), group, busy_topic, **SETTINGS) for _ in range(2)])
    for crew in crews:
        settled(crew, partitions=PARTITIONS)
        for member in crew:
            commit_all(member, busy_topic, 1)
    generations = {member.name: member.generation for crew in crews for member in crew}
    revocations = {member.name: len(member.revocations) for crew in crews for member in crew}
    end(mortal_broker)
    mortal_broker.restart()
    expect_working(mortal_keeper, crews[0], busy_topic, read_already=1)
    for crew in crews[1:]:
        settled(crew, partitions=PARTITIONS)
        commits = committed(mortal_keeper.client, crew[0].group, busy_topic, range(PARTITIONS))
        assert commits == dict.fromkeys(range(PARTITIONS), 1)
    # Java and librdkafka join again by themselves when a topic's leader goes and comes back.
    quiet = [member for crew in crews for member in crew if member.client.name in ("kafka-python", "aiokafka")]
    assert [member.generation for member in quiet] == [generations[member.name] for member in quiet], described(quiet)
    assert {member.name: len(member.revocations) for member in quiet}.items() <= revocations.items(), described(quiet)


@ended_how
def test_a_group_that_waits_for_a_member_to_join_again(
    mortal_broker: ottla.testing.Broker,
    mortal_keeper: Keeper,
    borrow_mortal: Callable[[str], Client],
    join: Join,
    busy_topic: str,
    end: End,
) -> None:
    crews: list[list[Member]] = []
    for name in names_that(Can.JOIN_GROUPS, Can.COMMIT, Can.STOP_POLLING, Can.NOTICE_FENCING):
        client, group = borrow_mortal(name), new_group()
        busy = join(client, group, busy_topic, **SETTINGS)
        settled([busy], partitions=PARTITIONS)
        commit_all(busy, busy_topic, 1)
        crews.append([busy])
    for crew in crews:
        crew[0].hold(HELD_MS)  # It hears of the rebalance in its heartbeats, and joins when it polls.
        crew.append(join(crew[0].client, crew[0].group, busy_topic, **SETTINGS))
    for crew in crews:
        expect_state(mortal_keeper, crew[0].group, "PREPARING_REBALANCE")
    end(mortal_broker)
    mortal_broker.restart()
    for crew in crews:
        settled(crew, partitions=PARTITIONS)
    expect_working(mortal_keeper, crews[0], busy_topic, read_already=1)


@ended_how
def test_a_group_that_waits_for_its_leaders_assignment(
    mortal_broker: ottla.testing.Broker,
    mortal_keeper: Keeper,
    borrow_mortal: Callable[[str], Client],
    join: Join,
    busy_topic: str,
    end: End,
) -> None:
    group = new_group()
    leader = join(borrow_mortal("kafka-python"), group, busy_topic, **SETTINGS, assignor="slow range")
    settled([leader], partitions=PARTITIONS)
    commit_all(leader, busy_topic, 1)
    followers = [
        join(borrow_mortal(name), group, busy_topic, **SETTINGS, assignor="range")
        for name in ("confluent-kafka", "java")
    ]
    expect_state(mortal_keeper, group, "COMPLETING_REBALANCE")
    end(mortal_broker)
    mortal_broker.restart()
    expect_working(mortal_keeper, [leader, *followers], busy_topic, read_already=1)


def test_killed_again_and_again_while_members_come_and_go(
    mortal_broker: ottla.testing.Broker,
    mortal_keeper: Keeper,
    borrow_mortal: Callable[[str], Client],
    join: Join,
    busy_topic: str,
) -> None:
    group = new_group()
    members = [
        join(borrow_mortal(name), group, busy_topic, **SETTINGS, assignor="range") for name in ("java", "aiokafka")
    ]
    settled(members, partitions=PARTITIONS)
    for member in members:
        commit_all(member, busy_topic, 1)
    joiners = ["confluent-kafka", "kafka-python"]
    with SteadyWriter(mortal_broker.bootstrap_servers, busy_topic, partitions=PARTITIONS):
        for number in range(ROUNDS):
            members.append(join(borrow_mortal(joiners[number % 2]), group, busy_topic, **SETTINGS, assignor="range"))
            time.sleep(number * 0.15)  # Each time a little further into the rebalance.
            mortal_broker.kill()
            mortal_broker.restart()
            if len(members) > PARTITIONS:
                members.pop(0).leave()
    settled(members, partitions=PARTITIONS)
    commits = committed(mortal_keeper.client, group, busy_topic, range(PARTITIONS))
    assert commits == dict.fromkeys(range(PARTITIONS), 1)
    for member in members:
        commit_all(member, busy_topic, 2)
