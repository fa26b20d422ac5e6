"""Bugs planted into the quorum, one at a time: the simulator must find each within a thousand seeds.

`python -m tests.simulation.raft_mutations` plants every one and tells the first seed that finds it, and how. A simulator
that finds nothing in a broken protocol proves nothing about a sound one.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ottla.base.errors import InvariantViolation
from ottla.base.types import NodeId, Offset
from ottla.raft import election, following, leading, machine, membership, serving
from ottla.raft.effects import PersistQuorumState, TruncateLog
from ottla.raft.log_view import LogBatch, LogView
from ottla.raft.messages import EpochEnd, Vote
from ottla.raft.node import QuorumNode
from ottla.raft.quorum_state import QuorumState
from ottla.raft.state import Candidate, Follower, Leader, Unattached
from ottla.raft.voters import VoterHistory
from sim.raft_scenario import RaftScenario

SEEDS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Mutation:
    name: str
    owner: Any
    attribute: str
    replacement: Callable[..., Any]

    @contextmanager
    def planted(self) -> Iterator[None]:
        sound = self.owner.__dict__[self.attribute]
        setattr(self.owner, self.attribute, self.replacement)
        try:
            yield
        finally:
            setattr(self.owner, self.attribute, sound)


def find(mutation: Mutation, seeds: range = range(SEEDS_MAX)) -> tuple[int, str] | None:
    """The first seed that finds it, and what it says."""
    with mutation.planted():
        for seed in seeds:
            try:
                RaftScenario(seed).run()
            except (AssertionError, InvariantViolation) as error:
                return seed, str(error)
    return None


# ---- the bugs ----

_persist = QuorumNode.persist
_append = LogView.append
_become_leader = leading.become_leader
_answer_vote = election.answer_vote


def _forget_votes(node: QuorumNode, state: QuorumState) -> None:
    """The epoch is persisted, whom it voted for is not."""
    _persist(node, state)
    node.effects[:] = [
        PersistQuorumState(state=replace(effect.state, voted=None))
        if isinstance(effect, PersistQuorumState)
        else effect
        for effect in node.effects
    ]


def _forget_everything(node: QuorumNode, state: QuorumState) -> None:
    _persist(node, state)
    node.effects[:] = [effect for effect in node.effects if not isinstance(effect, PersistQuorumState)]


def _durable_at_once(log: LogView, batch: LogBatch) -> None:
    _append(log, batch)
    log.durable_end_offset = log.log_end_offset


def _truncate_an_epoch_too_many(log: LogView, diverging: EpochEnd) -> Offset:
    """The records of the epoch that both logs have go, too."""
    return log.end_of_epoch(diverging.epoch - 1).end_offset


def _truncate_on_election(node: QuorumNode, candidate: Candidate) -> None:
    """A new leader drops what it does not know to be committed."""
    if node.high_watermark < node.log.log_end_offset:
        node.log.truncate(node.high_watermark)
        node.effects.append(TruncateLog(to_offset=node.high_watermark))
    _become_leader(node, candidate)


def _vote_again(node: QuorumNode, request: Vote) -> bool:
    """A second candidate of the epoch is as welcome as the first."""
    if isinstance(node.role, Unattached) and node.log.is_covered_by(request.log_end):
        node.state = replace(node.state, voted=None)
        return True
    return False


def _lead_on_after_a_restart(node: QuorumNode) -> Any:
    if node.leader_id == node.me.node_id:
        return Leader(elected_at_ms=node.now_ms, epoch_start_offset=node.log.log_end_offset - 1)
    if node.leader_id >= 0:
        return Follower(leader_id=node.leader_id, fetch_deadline_ms=node.now_ms + node.settings.fetch_timeout_ms)
    return Unattached(election_deadline_ms=node.random_election_deadline_ms())


def _vote_in_anothers_place(node: QuorumNode, request: Vote) -> Any:
    """A node that lost its directory answers as if it were the voter it was."""
    return _answer_vote(node, replace(request, voter=node.me))


def _flushed_whenever(log: LogView, end_offset: Offset, truncation_count: int) -> None:
    """A late fsync counts though the log was truncated and written anew meanwhile."""
    log.durable_end_offset = max(log.durable_end_offset, min(end_offset, log.log_end_offset))


def _ask_voters_and_servers(node: QuorumNode) -> set[NodeId]:
    return {*node.voters.node_ids, *node.settings.bootstrap_ids}


MUTATIONS = (
    Mutation("a vote is not persisted", QuorumNode, "persist", _forget_votes),
    Mutation("neither vote nor epoch is persisted", QuorumNode, "persist", _forget_everything),
    Mutation("unsynced entries count", LogView, "append", _durable_at_once),
    Mutation("older epochs' entries are committed by counting", serving, "is_committed_by_count", lambda *_: True),
    Mutation("truncation goes below the watermark", following, "truncation_offset", _truncate_an_epoch_too_many),
    Mutation("a new leader truncates to its watermark", election, "become_leader", _truncate_on_election),
    Mutation("two voter changes at once", membership, "check_no_other_change", lambda *_: None),
    Mutation("two votes in one epoch", election, "may_grant_vote", _vote_again),
    Mutation("a vote for a log that lacks entries", LogView, "is_covered_by", lambda *_: True),
    Mutation("a restarted leader leads on", machine, "_first_role", _lead_on_after_a_restart),
    Mutation("a voter that lost its directory votes", election, "answer_vote", _vote_in_anothers_place),
    Mutation("an fsync counts across a truncation", LogView, "on_flushed", _flushed_whenever),
    Mutation("voter sets survive their truncation", VoterHistory, "truncate", lambda *_: None),
    Mutation("diverging followers are not corrected", serving, "correction_of", lambda *_: None),
    Mutation("a leader that was lost is not asked again", following, "whom_to_ask", _ask_voters_and_servers),
)


def main() -> int:
    missed = 0
    for mutation in MUTATIONS:
        found = find(mutation)
        missed += found is None
        print(
            f"{mutation.name}: " + ("NOT FOUND" if found is None else f"seed {found[0]}: {found[1][:100]}"), flush=True
        )
    return missed


if __name__ == "__main__":
    sys.exit(main())
