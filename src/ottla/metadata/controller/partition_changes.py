"""One partition's next state: a reassignment completed, the eligible leaders kept, a leader elected. KIP-966, KIP-455.

A caller says what is asked of the partition (another ISR, other replicas); `changed_partition` adds what follows from
it, and `change_record` writes the difference down. The rules, in their order:

1. A reassignment is complete once every added replica is in sync and enough are in sync without the removed ones.
2. While fewer than `min.insync.replicas` are in sync, who left the ISR meanwhile stays eligible: the watermark stood
   still, so that it has every committed record. A replica that may have lost records is not eligible.
3. The leader is in the ISR; where that is empty, one of the eligible takes over and is the ISR. With neither, those
   who may have lost records (`last_known_elr`) are compared once all are back, and the longest log leads on. Only where
   the configuration says so any other replica may; where no copy is left because the disks were replaced, an empty one.
   All of these start out `RECOVERING`.
4. A new leader, and a replica dropped from the partition, start a leader epoch: that fences whom nobody has told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, IntEnum, auto
from typing import Any, Final

from ottla.base.errors import invariant
from ottla.base.types import NO_NODE, NodeId
from ottla.metadata.controller.electorate import UNKNOWN_LOG_END, Electorate
from ottla.metadata.image import CHANGEABLE_LISTS
from ottla.metadata.image_parts import PartitionImage, PartitionRef, without
from ottla.wire import api


class Election(Enum):
    ONLINE = auto()
    """A leader that may lead stays; otherwise the first replica that may takes over."""
    PREFERRED = auto()
    """The first replica leads if it may, whoever leads now."""
    UNCLEAN = auto()
    """As ONLINE; rather than nobody a replica that lacks records, or an empty one where every copy is gone."""
    LAST_RESORT = auto()
    """As UNCLEAN; an empty one also while a copy that is left is out of reach."""


_UNCLEAN_ELECTIONS: Final = (Election.UNCLEAN, Election.LAST_RESORT)


class RecoveryState(IntEnum):
    RECOVERED = 0
    RECOVERING = 1
    """Elected without having every committed record, and not yet done with what follows from that (KIP-704)."""


def changed_partition(
    ref: PartitionRef,
    asked: PartitionImage,
    electorate: Electorate,
    *,
    election: Election | None = None,
    lost_by: NodeId = NO_NODE,
) -> PartitionImage:
    """`asked`: the present state but for what is to change. `lost_by`: a broker whose copy may lack records.

    Without an `election` the topic's configuration chooses between ONLINE and UNCLEAN.
    """
    before, after = ref.partition, asked
    rules = electorate.rules(ref.topic, asked)
    if asked.is_moving:
        after = _with_completed_move(asked, rules.min_isr)
        rules = electorate.rules(ref.topic, after)
    after = _with_eligible_leaders(before, after, rules.min_isr, lost_by)
    after = _with_directories(before, after, electorate)
    if election is None:
        election = Election.UNCLEAN if rules.unclean_elections else Election.ONLINE
    after = _with_leader(ref, after, electorate, election)
    if after.leader_epoch == before.leader_epoch and not set(before.replicas) <= set(after.replicas):
        after = after._replace(leader_epoch=before.leader_epoch + 1)
    _check(ref, after)
    return after


def change_record(ref: PartitionRef, after: PartitionImage) -> api.PartitionChangeRecord | None:
    """What turns the partition into `after`, or nothing."""
    before = ref.partition
    changes: dict[str, Any] = {
        name: list(getattr(after, name)) for name in CHANGEABLE_LISTS if getattr(after, name) != getattr(before, name)
    }
    if after.leader_epoch != before.leader_epoch:
        changes["leader"] = after.leader
    if after.leader_recovery_state != before.leader_recovery_state:
        changes["leader_recovery_state"] = after.leader_recovery_state
    if not changes:
        return None
    return api.PartitionChangeRecord(partition_id=ref.number, topic_id=ref.topic.id, **changes)


def _with_completed_move(asked: PartitionImage, min_isr: int) -> PartitionImage:
    isr = without(asked.isr, asked.removing_replicas)
    # Kafka is content with one that is in sync; a committed record could then be left with fewer copies than promised.
    if len(isr) < max(1, min_isr) or not set(asked.adding_replicas) <= set(isr):
        return asked
    return asked._replace(replicas=asked.target_replicas, isr=isr, adding_replicas=(), removing_replicas=())


def _with_eligible_leaders(
    before: PartitionImage, after: PartitionImage, min_isr: int, lost_by: NodeId
) -> PartitionImage:
    if len(after.isr) >= min_isr:
        return after._replace(eligible_leader_replicas=(), last_known_elr=())
    # With enough in sync the watermark moved on without the others, whatever was written of them before.
    complete: tuple[NodeId, ...] = before.isr
    suspects: tuple[NodeId, ...] = ()
    if len(before.isr) < min_isr:
        complete, suspects = (*before.isr, *before.eligible_leader_replicas), before.last_known_elr
    if lost_by in complete and lost_by not in suspects:
        suspects = (*suspects, lost_by)
    gone = (*after.isr, lost_by)
    return after._replace(
        eligible_leader_replicas=tuple(one for one in after.replicas if one in complete and one not in gone),
        last_known_elr=tuple(one for one in suspects if one in after.replicas and one not in after.isr),
    )


def _with_directories(before: PartitionImage, after: PartitionImage, electorate: Electorate) -> PartitionImage:
    if after.replicas == before.replicas:
        return after
    known = dict(zip(before.replicas, after.directories, strict=True))
    return after._replace(
        directories=tuple(
            known[replica] if replica in known else electorate.directory_for(replica) for replica in after.replicas
        )
    )


def _with_leader(
    ref: PartitionRef, after: PartitionImage, electorate: Electorate, election: Election
) -> PartitionImage:
    before = ref.partition
    leader = next(_clean_candidates(before, after, electorate, election), NO_NODE)
    if leader == NO_NODE:
        leader = next(_unclean_candidates(ref, after, electorate, election), NO_NODE)
        if leader == NO_NODE and (leader := next(_empty_candidates(after, electorate, election), NO_NODE)) != NO_NODE:
            after = _in_new_directory(after, leader, electorate)
        if leader != NO_NODE:
            others = without(after.last_known_elr, (leader,)) if leader in after.last_known_elr else ()
            after = after._replace(
                isr=(leader,),
                eligible_leader_replicas=(),
                last_known_elr=others,
                leader_recovery_state=int(RecoveryState.RECOVERING),
            )
    elif leader not in after.isr:
        after = after._replace(
            isr=(leader,),
            eligible_leader_replicas=without(after.eligible_leader_replicas, (leader,)),
            last_known_elr=without(after.last_known_elr, after.eligible_leader_replicas),
        )
    if leader == before.leader:
        return after
    if leader == NO_NODE and before.leader in after.replicas:
        after = after._replace(last_known_elr=(before.leader, *without(after.last_known_elr, (before.leader,))))
    return after._replace(leader=leader, leader_epoch=before.leader_epoch + 1)


def _clean_candidates(
    before: PartitionImage, after: PartitionImage, electorate: Electorate, election: Election
) -> Iterator[NodeId]:
    """Best first. Each has every committed record."""
    complete = after.isr or after.eligible_leader_replicas
    first = after.replicas[:1] if election is Election.PREFERRED else ()
    return _able(after, (*first, before.leader, *after.replicas), electorate, complete)


def _unclean_candidates(
    ref: PartitionRef, after: PartitionImage, electorate: Electorate, election: Election
) -> Iterator[NodeId]:
    """Those who may lack committed records, the longest log first.

    One of the suspects has them all, if any copy has: so that all of them must be there and have said how far they go.
    """
    suspects = after.last_known_elr
    if election in _UNCLEAN_ELECTIONS:
        suspects = (*suspects, *after.replicas)
    elif after.isr or after.eligible_leader_replicas or not _are_comparable(ref, after, electorate):
        suspects = ()
    longest_first = sorted(suspects, key=lambda one: electorate.log_end(ref, one), reverse=True)
    return _able(after, longest_first, electorate, after.replicas)


def _empty_candidates(after: PartitionImage, electorate: Electorate, election: Election) -> Iterator[NodeId]:
    """Those whose disk was replaced: the partition begins anew."""
    lost = [one for one in after.replicas if electorate.has_lost_copy(after, one)]
    is_allowed = election is Election.LAST_RESORT or (
        election is Election.UNCLEAN and len(lost) == len(after.replicas)  # What any copy still has is worth a wait.
    )
    return iter(lost if is_allowed else ())


def _in_new_directory(after: PartitionImage, broker_id: NodeId, electorate: Electorate) -> PartitionImage:
    places = dict(zip(after.replicas, after.directories, strict=True))
    places[broker_id] = electorate.directory_for(broker_id)
    return after._replace(directories=tuple(places.values()))


def _are_comparable(ref: PartitionRef, after: PartitionImage, electorate: Electorate) -> bool:
    suspects = after.last_known_elr
    is_known = len(suspects) == 1 or all(electorate.log_end(ref, one) != UNKNOWN_LOG_END for one in suspects)
    return is_known and all(electorate.may_lead(after, one) for one in suspects)


def _able(
    partition: PartitionImage, candidates: Iterable[NodeId], electorate: Electorate, among: tuple[NodeId, ...]
) -> Iterator[NodeId]:
    return (one for one in candidates if one in among and electorate.may_lead(partition, one))


def _check(ref: PartitionRef, after: PartitionImage) -> None:
    isr, eligible = set(after.isr), set(after.eligible_leader_replicas)
    invariant(isr.isdisjoint(eligible), "who is in sync need not be eligible", topic=ref.topic.name, after=after)
    invariant((isr | eligible).issubset(after.replicas), "only replicas are in sync", topic=ref.topic.name, after=after)
    invariant(after.leader == NO_NODE or after.leader in isr, "a leader is in sync", topic=ref.topic.name, after=after)
