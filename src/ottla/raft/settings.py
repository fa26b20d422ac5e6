"""The quorum's time-outs, by Kafka's names where it has them. `chance` spreads those that must not fire together."""

from dataclasses import dataclass

from ottla.base.types import NodeId
from ottla.raft.voters import Endpoint, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    me: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    bootstrap_ids: tuple[NodeId, ...] = ()
    """Whom to ask for the leader besides the voters the log names."""

    fetch_timeout_ms: int = 2_000
    election_timeout_ms: int = 1_000
    election_backoff_ms_max: int = 1_000
    request_timeout_ms: int = 1_000
    """Shorter than the fetch time-out: one lost message is no reason for an election."""
    retry_backoff_ms: int = 20
    fetch_wait_ms_max: int = 500
    suspicion_jitter_ms: int = 20
    """Followers see a dead leader's connection reset at the same moment; the first to ask should be alone."""
    yield_ms: int = 200
    """Who grants a pre-vote lets the other go first for so long: an election with two fsyncs on a busy disk. 0: nobody."""

    @property
    def check_quorum_timeout_ms(self) -> int:
        """Longer than the followers' patience: a leader that could still be followed does not give up first."""
        return self.fetch_timeout_ms * 3 // 2
