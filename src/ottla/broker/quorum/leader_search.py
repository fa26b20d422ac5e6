"""The search for the quorum's leader when a node starts: what the asked have said, and what to tell a person meanwhile.

A node whose directory belongs to another cluster is refused by everybody (INCONSISTENT_CLUSTER_ID), and would ask for
ever. Whether it or those who refuse it are in the wrong place shows by their number: only where a majority of the voters
refuses, or every bootstrap server of a node that knows no voters, and nobody has answered otherwise, the search is in
vain. One stranger at a voter's address is no reason to end.
"""

from collections.abc import Collection

from ottla.base.errors import ErrorCode
from ottla.base.types import NodeId
from ottla.raft.voters import VoterSet


class LeaderSearch:
    def __init__(self, bootstrap_ids: Collection[NodeId]) -> None:
        self._bootstrap_ids = frozenset(bootstrap_ids)
        self._refused_by: set[NodeId] = set()
        self._is_known_somewhere = False

    @property
    def foreign_ids(self) -> tuple[NodeId, ...]:
        """Who has said to be of another cluster."""
        return tuple(sorted(self._refused_by))

    def on_answer(self, peer_id: NodeId, error: ErrorCode) -> None:
        if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._refused_by.add(peer_id)
        else:
            self._refused_by.discard(peer_id)
            self._is_known_somewhere = True

    def is_in_vain(self, voters: VoterSet) -> bool:
        if self._is_known_somewhere:
            return False
        if voters:
            return len(self._refused_by.intersection(voters.node_ids)) >= voters.majority_count
        return bool(self._bootstrap_ids) and self._refused_by >= self._bootstrap_ids

    def remedy(self, voters: VoterSet) -> str:
        """For whoever wonders why the node waits."""
        text = "check that this node reaches controller.quorum.bootstrap.servers and the leader"
        if voters:
            text = f"{voters.majority_count} of the voters {', '.join(map(str, voters.node_ids))} must run"
        if known := [one for one in self.foreign_ids if one >= 0]:
            named = ", ".join(map(str, known))
            text += (
                f"; another cluster answers for the nodes {named} (INCONSISTENT_CLUSTER_ID): look at their addresses"
            )
        return text
