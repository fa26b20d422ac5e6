"""The two timelines of a crashed member of three, side by side: eager stops all, cooperative only what was lost.

Scenes 26 and 27. All groups, of every client, read one topic at the same time and lose their member B at the same moment,
so that the session's ten seconds are waited for once.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.conformance.client import Client
from tests.conformance.groups import Member, described, longest_gap_ms, new_group, overlaps, ownerships, settled
from tests.conformance.registry import Can, names_that
from tests.conformance.steady_writer import SteadyWriter
from tests.conformance.under_test import BrokerUnderTest, Keeper
from tests.conformance.waiting import eventually

PARTITIONS = 6
SESSION_MS = 10_000
HEARTBEAT_MS = 300
END_WAIT_S = 60
STEADY_S = 2
EAGER = names_that(Can.JOIN_GROUPS, Can.CHOOSE_ASSIGNOR)
COOPERATIVE = names_that(Can.JOIN_GROUPS, Can.REBALANCE_COOPERATIVELY)
# kafka-python 3.0 forgets a join that ends between two of its polls and joins anew: seen on a busy machine, on the wire.
JOINS_AGAIN = frozenset({"kafka-python"})
Join = Callable[..., Member]


@dataclass(slots=True, kw_only=True)
class Scene:
    """One client's group of A, B and C, of which B crashes."""

    client: str
    assignor: str
    group: str
    a: Member
    b: Member
    c: Member
    before: dict[str, frozenset[int]] = field(default_factory=dict)
    crashed_ms: float = 0
    detected_ms: float = 0
    ended_ms: float = 0

    @property
    def survivors(self) -> list[Member]:
        return [self.a, self.c]

    @property
    def has_ended(self) -> bool:
        return sorted([*self.a.owned, *self.c.owned]) == list(range(PARTITIONS))

    @property
    def lost(self) -> frozenset[int]:
        return self.before[self.b.name]

    @property
    def kept(self) -> list[int]:
        return [partition for partition in range(PARTITIONS) if partition not in self.lost]

    def gap_ms(self, partition: int) -> float:
        """The longest in which nobody read a partition, from the crash until a while after its end."""
        return longest_gap_ms(self.survivors, partition, from_ms=self.crashed_ms, to_ms=self.ended_ms + STEADY_S * 1000)

    def steady_gap_ms(self, partition: int) -> float:
        """What the gap is when nothing happens."""
        from_ms = self.crashed_ms - STEADY_S * 1000
        return longest_gap_ms(self.survivors, partition, from_ms=from_ms, to_ms=self.crashed_ms)

    def back_ms(self, partition: int) -> float:
        """How long after the crash somebody read a partition again."""
        times = [
            record.at_ms for member in self.survivors for record in member.records if record.partition == partition
        ]
        return min(at_ms for at_ms in times if at_ms > self.crashed_ms) - self.crashed_ms


def test_scenes_26_and_27_the_eager_and_the_cooperative_timeline(
    broker: BrokerUnderTest,
    keeper: Keeper,
    borrow: Callable[[str], Client],
    own_process: Callable[[str], Client],
    join: Join,
    measured: Callable[[str], None],
    topic_name: str,
) -> None:
    keeper.create(topic_name, partitions=PARTITIONS)
    doomed = {name: own_process(name) for name in {*EAGER, *COOPERATIVE}}
    with SteadyWriter(broker.bootstrap, topic_name, partitions=PARTITIONS):
        scenes = [new_scene(name, "range", borrow(name), doomed[name], join, topic_name) for name in EAGER]
        scenes += [new_scene(name, "cooperative", borrow(name), doomed[name], join, topic_name) for name in COOPERATIVE]
        for scene in scenes:
            scene.before = settled([scene.a, scene.b, scene.c], partitions=PARTITIONS)
        time.sleep(STEADY_S)  # Of steady reading, to have something to compare the gaps with.
        crash(scenes, doomed)
        wait_for_ends(scenes, keeper)
        time.sleep(STEADY_S)
        for member in (member for scene in scenes for member in scene.survivors):
            member.watch()
    for scene in scenes:
        measured(summary(scene))
    for scene in scenes:
        judge(scene)


def new_scene(name: str, assignor: str, shared: Client, doomed: Client, join: Join, topic: str) -> Scene:
    group = new_group()
    settings = {"assignor": assignor, "session_ms": SESSION_MS, "heartbeat_ms": HEARTBEAT_MS, "reset": "earliest"}
    # Assignors go by the order of member ids, which begin with the client's.
    a, b, c = (
        join(client, group, topic, client_id=client_id, **settings)
        for client_id, client in (("a", shared), ("b", doomed), ("c", shared))
    )
    return Scene(client=name, assignor=assignor, group=group, a=a, b=b, c=c)


def crash(scenes: list[Scene], doomed: dict[str, Client]) -> None:
    for scene in scenes:
        scene.b.watch()
    for client in doomed.values():
        client.kill()
    for scene in scenes:
        scene.crashed_ms = time.time() * 1000


def wait_for_ends(scenes: list[Scene], keeper: Keeper) -> None:
    """Watch until two members own everything, and note when the coordinator noticed and when it was over."""

    def ended() -> None:
        for scene in scenes:
            if not scene.detected_ms and keeper.client.call("describe_group", group=scene.group)["state"] != "STABLE":
                scene.detected_ms = time.time() * 1000
            if not scene.ended_ms:
                scene.a.watch()
                scene.c.watch()
                scene.ended_ms = time.time() * 1000 if scene.has_ended else 0
        assert all(scene.ended_ms for scene in scenes), [described(scene.survivors) for scene in scenes]

    eventually(ended, wait_s=END_WAIT_S)


def summary(scene: Scene) -> str:
    gap = max(scene.gap_ms(partition) for partition in scene.kept)
    steady_gap = max(scene.steady_gap_ms(partition) for partition in scene.kept)
    back = max(scene.back_ms(partition) for partition in scene.lost)
    detected = f", {scene.crashed_ms + back - scene.detected_ms:.0f} ms after detection" if scene.detected_ms else ""
    return (
        f"{scene.client:16} {scene.assignor:12} longest gap of an unaffected partition {gap:.0f} ms ({steady_gap:.0f} ms "
        f"before), lost partitions read again {back:.0f} ms after the crash{detected}"
    )


def judge(scene: Scene) -> None:
    told = described(scene.survivors)
    assert overlaps(ownerships([scene.a, scene.b, scene.c], crashed_ms={scene.b.name: scene.crashed_ms})) == [], told
    # The session ran out: not sooner, and nobody waited for a second one.
    for partition in scene.lost:
        assert SESSION_MS - HEARTBEAT_MS - 1000 < scene.back_ms(partition) < 2 * SESSION_MS, told
    revoked = {
        member.name: [event for event in member.revocations if event.at_ms > scene.crashed_ms]
        for member in scene.survivors
    }
    if scene.assignor == "range":
        assert [sorted(scene.before[member.name]) for member in (scene.a, scene.b, scene.c)] == [[0, 1], [2, 3], [4, 5]]
        assert [sorted(member.owned) for member in scene.survivors] == [[0, 1, 2], [3, 4, 5]], told
        for member in scene.survivors:
            taken = [event.partitions for event in revoked[member.name]]
            assert taken[:1] == [scene.before[member.name]], f"{taken} taken from {member.describe()}"
            assert len(taken) == 1 or scene.client in JOINS_AGAIN, f"{taken} taken from {member.describe()}"
    else:
        assert all(scene.before[member.name] < member.owned for member in scene.survivors), told
        assert revoked == {scene.a.name: [], scene.c.name: []}, told
        for partition in scene.kept:
            assert scene.gap_ms(partition) < SESSION_MS / 2, summary(scene)
