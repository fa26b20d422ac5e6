"""A group with members that crash, and a coordinator that dies: `sim/group_scenario.py` says what must hold."""

import pytest

from ottla.base.outcome import Outcome
from ottla.coordinator.groups.group import Group
from ottla.coordinator.groups.group_records import metadata_record
from ottla.coordinator.groups.rebalance import Rebalances
from ottla.coordinator.runtime import CoordinatorRuntime
from sim.group_scenario import group_on_one_node


@pytest.mark.parametrize("first_seed", range(20_000, 20_020, 5))
def test_five_seeds_from(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 5):
        try:
            group_on_one_node(seed, is_power_safe=seed % 2 == 0).run()
        except BaseException as error:
            error.add_note(f"python -m sim --scenario groups --seed {seed}")
            raise


def test_a_seed_twice_gives_the_same_trace() -> None:
    first = [group_on_one_node(seed).run() for seed in range(2)]
    assert first == [group_on_one_node(seed).run() for seed in range(2)]
    assert len(set(first)) == 2


# -- the scenario notices what it is there for -----------------------------------------------------------------------


def fails_for_some_seed(text: str) -> None:
    for seed in range(0, 40, 2):
        try:
            group_on_one_node(seed).run()
        except AssertionError as error:
            assert text in str(error)
            return
    raise AssertionError("the scenario noticed nothing")


def test_acknowledgements_before_the_commit_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def submit_and_hope(self, index, decide):  # type: ignore[no-untyped-def]
        shard = self._ready_shard(index)
        decision = decide(shard.machine)
        shard.record(decision)
        shard.write()
        done = Outcome()
        done.tell(None)
        return decision.reply, done

    async def submit(self, index, decide):  # type: ignore[no-untyped-def]
        return submit_and_hope(self, index, decide)[0]

    monkeypatch.setattr(CoordinatorRuntime, "submit", submit)
    monkeypatch.setattr(CoordinatorRuntime, "submit_gathered", submit_and_hope)
    fails_for_some_seed("was acknowledged")


def test_a_group_that_waits_for_ever_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rebalances, "keep_alive", lambda self, member: self._deadlines.clear(member))
    monkeypatch.setattr(Rebalances, "end_phase", lambda self, group: ())
    fails_for_some_seed("wedged")


def test_two_owners_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def record_everything(group: Group, request, now_ms):  # type: ignore[no-untyped-def]
        assignments = {member_id: bytes([0, 1, 2, 3]) for member_id in group.members}
        return (metadata_record(group, generation=group.generation, assignments=assignments, now_ms=now_ms),)

    monkeypatch.setattr("ottla.coordinator.groups.membership.Membership._assignment", staticmethod(record_everything))
    fails_for_some_seed("two owners")
