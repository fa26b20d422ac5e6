"""`ottla doctor`: each thing that it names, from evidence that anybody can read, and silence where all is well."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from ottla.base.types import TopicPartition
from ottla.cli.cluster_state import ClusterState
from ottla.cli.diagnosis import Finding, Severity, diagnose
from ottla.cli.doctor import finding_view, looked_at
from ottla.cli.evidence import (
    Evidence,
    HotPartition,
    Look,
    Stall,
    StalledGroup,
    group_stalls,
    hot_partitions,
    last_in_sync,
    replaced_disks,
)
from ottla.client.cluster_states import BrokerState, LogDirectory, Reassignment
from ottla.client.groups import GroupDescription, GroupMember
from ottla.wire import api
from tests.unit.cli.clusters import cluster, partition, voter

P0, P1, P2 = (TopicPartition("t", index) for index in range(3))
MEMBER = GroupMember(member_id="m", instance_id=None, client_id="till", host="10.0.0.7", partitions=(P0,))


def disk(*, usable_bytes: int, error: str | None = None) -> LogDirectory:
    sizes = {P0: 600, P1: 100, TopicPartition("audit", 0): 50}
    return LogDirectory(path="/var/lib/ottla", error=error, total_bytes=1_000, usable_bytes=usable_bytes, sizes=sizes)


def group(*members: GroupMember, state: str = "Stable") -> GroupDescription:
    return GroupDescription(
        group="payments", state=state, type="classic", assignor="", coordinator=1, members=tuple(members)
    )


def evidence(
    state: ClusterState | None = None,
    *,
    directories: Mapping[int, Sequence[LogDirectory]] | None = None,
    growth: Mapping[int, float] | None = None,
    hot: Sequence[HotPartition] = (),
    stalled: Sequence[StalledGroup] = (),
    unreachable: Mapping[int, str] | None = None,
    bootstrap_host: str = "host1",
    throttled_topics: Sequence[str] = (),
) -> Evidence:
    return Evidence(
        seconds=10.0,
        state=state or cluster(partition(0, [1, 2, 3])),
        directories=directories or {1: [disk(usable_bytes=500)]},
        growth=growth or {},
        hot=tuple(hot),
        stalled=tuple(stalled),
        group_count=len(stalled),
        unreachable=unreachable or {},
        bootstrap_hosts=(bootstrap_host,),
        throttled_topics=tuple(throttled_topics),
    )


def only(found: list[Finding], kind: str, severity: Severity) -> Finding:
    [finding] = found
    assert (finding.kind, finding.severity) == (kind, severity)
    assert finding.fix
    assert finding_view(finding)
    return finding


def found_in(given: Evidence) -> list[Finding]:
    return diagnose(given, stuck_after_s=60)


def test_nothing_is_found_in_a_healthy_cluster() -> None:
    assert found_in(evidence()) == []
    assert looked_at(evidence()) == "3 brokers, 1 partition and 0 groups looked at for 10 s"


@pytest.mark.parametrize(
    ("usable_bytes", "severity", "share"), [(40, Severity.CRITICAL, "96%"), (200, Severity.WARNING, "80%")]
)
def test_a_disk_that_fills_up_is_named_with_what_fills_it_and_when(
    usable_bytes: int, severity: Severity, share: str
) -> None:
    directories = {2: [disk(usable_bytes=usable_bytes)]}
    finding = only(found_in(evidence(directories=directories, growth={2: 4.0})), "disk-full", severity)
    assert finding.what == f"a disk of broker 2 is {share} full"
    assert f"/var/lib/ottla: {usable_bytes} B of 1000 B left" in finding.evidence
    assert "largest topics there: t 700 B, audit 50 B" in finding.evidence
    assert finding.evidence[1].startswith("filling by 4 B/s: full in ")
    assert "ottla topic config t --set retention.ms" in finding.fix[0]


def test_a_directory_that_the_broker_gave_up_is_critical_whatever_is_free() -> None:
    directories = {1: [disk(usable_bytes=500, error="KAFKA_STORAGE_ERROR")]}
    finding = only(found_in(evidence(directories=directories)), "disk-full", Severity.CRITICAL)
    assert "KAFKA_STORAGE_ERROR" in finding.evidence[0]


def test_a_hot_partition_is_named_with_its_rate_its_key_and_a_broker_of_its_own() -> None:
    hot = HotPartition(
        partition=P0, bytes_per_second=10e6, others_bytes_per_second=1e6, key="customer-1", key_share=0.93
    )
    finding = only(found_in(evidence(hot=[hot])), "hot-partition", Severity.CRITICAL)
    assert finding.what == "t-0 is a hot partition: 10 times the traffic of the other partitions of t"
    assert "key 'customer-1' is in 93% of its last records" in finding.evidence
    assert any("--isolate-leader t-0" in line for line in finding.fix)


def test_hot_is_what_takes_many_times_the_traffic_of_its_siblings() -> None:
    assert [each.partition for each in hot_partitions({P0: 1e6, P1: 1e5, P2: 1e5})] == [P0]
    assert hot_partitions({P0: 1e6, P1: 9e5, P2: 1e5}) == []
    assert hot_partitions({P0: 9e4, P1: 0, P2: 0}) == []  # Nobody notices.
    assert hot_partitions({P0: 1e9}) == []  # A topic of one partition has no siblings.


def stall(**changes: object) -> Stall:
    usual = Stall(partition=P0, committed=40, end=1_040, end_grew=True, waited_s=600.0, member=MEMBER)
    return replace(usual, **changes)  # type: ignore[arg-type]


def test_a_stuck_group_with_members_is_named_with_who_holds_what_and_how_to_skip_a_record() -> None:
    stalled = StalledGroup(description=group(MEMBER), stalls=(stall(),))
    finding = only(found_in(evidence(stalled=[stalled])), "stuck-group", Severity.CRITICAL)
    assert finding.what == "group payments is stuck: 1,000 records unread in 1 partition, and nothing committed"
    assert finding.evidence == (
        "committed offsets stood still for 10 s: t-0 at 40 of 1,040",
        "the first unread record has waited for 10 m",
        "producers write on: t-0",
        "state Stable, 1 member; t-0 is held by till at 10.0.0.7",
    )
    assert "max.poll.interval.ms" in finding.fix[0]
    assert "ottla group reset payments --topic t:0 --shift-by 1 --execute" in finding.fix[1]


def test_a_group_that_nobody_reads_for_is_told_apart() -> None:
    stalled = StalledGroup(description=group(state="Empty"), stalls=(stall(member=None),))
    finding = only(found_in(evidence(stalled=[stalled])), "stuck-group", Severity.WARNING)
    assert "nobody reads" in finding.fix[0]


def test_a_rebalance_that_does_not_end_is_told_apart() -> None:
    stalled = StalledGroup(description=group(MEMBER, state="PreparingRebalance"), stalls=(stall(),))
    assert (
        "rebalance does not end" in only(found_in(evidence(stalled=[stalled])), "stuck-group", Severity.CRITICAL).fix[0]
    )


@pytest.mark.parametrize(
    ("waited_s", "end_grew", "is_named"),
    [(59.0, True, False), (61.0, False, True), (None, True, True), (None, False, False)],
)
def test_a_short_wait_is_no_incident(waited_s: float | None, end_grew: bool, is_named: bool) -> None:
    stalled = StalledGroup(description=group(MEMBER), stalls=(stall(waited_s=waited_s, end_grew=end_grew),))
    assert bool(found_in(evidence(stalled=[stalled]))) is is_named


def look(committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Look:
    return Look(directories={}, groups={"payments": group(MEMBER)}, committed={"payments": committed}, ends=ends)


def test_a_stall_is_unread_records_and_a_commit_that_did_not_move() -> None:
    first = look({P0: 40, P1: 5, P2: 9}, {P0: 900, P1: 8, P2: 9})
    second = look({P0: 40, P1: 6, P2: 9}, {P0: 1_040, P1: 8, P2: 9})
    [found] = group_stalls("payments", first, second)
    assert found == stall(waited_s=None)


def test_a_commit_for_the_first_time_is_no_stall() -> None:
    assert group_stalls("payments", look({}, {P0: 5}), look({P0: 1}, {P0: 5})) == []


def test_partitions_in_trouble_are_told_by_how_bad_it_is() -> None:
    state = cluster(
        partition(0, [1, 2, 3], isr=[1, 2]),
        partition(1, [1, 2, 3], isr=[1]),
        partition(2, [3], isr=[3], leader=None),
        fenced=[3],
    )
    assert [(finding.kind, finding.evidence[0]) for finding in found_in(evidence(state))] == [
        ("offline-partitions", "t-2"),
        ("below-min-isr", "t-1"),
        ("under-replicated", "t-0"),
        ("broker-down", "registered at host3:9092, and sends no heartbeats"),
    ]


def test_who_was_in_sync_last_is_whom_to_start() -> None:
    state = cluster(partition(0, [1, 2], isr=[], leader=None))
    found = only(found_in(replace(evidence(state), last_in_sync={P0: (2,)})), "offline-partitions", Severity.CRITICAL)
    assert "in sync when they went down: 2" in found.evidence
    assert found.fix[0] == "start the brokers that have the in-sync replicas (2)"


def test_a_disk_that_was_replaced_is_told_instead_of_a_broker_to_start() -> None:
    state = cluster(partition(0, [2], isr=[], leader=None))
    given = replace(evidence(state), last_in_sync={P0: (2,)}, replaced_disks={P0: (2,)})
    found = only(found_in(given), "offline-partitions", Severity.CRITICAL)
    assert "broker 2 runs, but its disk was replaced: its copies of t-0 are gone" in found.evidence
    assert found.fix[0].startswith("if the old disk is still there, restart broker 2 with it")
    assert "or all of them where no older copy is left" in found.fix[1]
    assert "unclean.leader.election.enable=true" in found.fix[1]
    assert not any("start the brokers that have" in line for line in found.fix)


def test_where_another_has_everything_that_is_whom_to_start_whatever_disks_were_replaced() -> None:
    state = cluster(partition(0, [1, 2], isr=[], leader=None), fenced=[1])
    given = replace(evidence(state), last_in_sync={P0: (1, 2)}, replaced_disks={P0: (2,)})
    found = next(each for each in found_in(given) if each.kind == "offline-partitions")
    assert found.fix[0] == "start the brokers that have the in-sync replicas (1)"


def description(holders: Sequence[int], offline: Sequence[int]) -> api.DescribeTopicPartitionsResponse:
    kind = api.DescribeTopicPartitionsResponse
    described = kind.DescribeTopicPartitionsResponsePartition(
        partition_index=0, last_known_elr=list(holders), offline_replicas=list(offline)
    )
    topic = kind.DescribeTopicPartitionsResponseTopic(name="t", partitions=[described])
    return kind(topics=[topic])


@pytest.mark.parametrize(
    ("offline", "fenced", "error", "replaced"),
    [
        ([2], [], None, {P0: (2,)}),
        ([2], [2], None, {}),  # It is down: its disk may be all right.
        ([2], [], "KAFKA_STORAGE_ERROR", {}),  # It failed, and may be mended.
        ([], [], None, {}),
    ],
)
def test_a_disk_was_replaced_where_a_broker_runs_and_the_directory_of_its_copy_neither_is_its_own_nor_failed(
    offline: list[int], fenced: list[int], error: str | None, replaced: dict[TopicPartition, tuple[int, ...]]
) -> None:
    state = cluster(partition(0, [2], isr=[], leader=None), fenced=fenced)
    answer = description([2], offline)
    holders = last_in_sync(answer, state.offline)
    assert holders == {P0: (2,)}
    directories = {2: [disk(usable_bytes=500, error=error)]}
    assert replaced_disks(answer, holders, state, directories) == replaced


def test_a_quorum_of_one_is_a_risk_among_many_brokers_and_none_alone() -> None:
    many = evidence(cluster(partition(0, [1]), voters=[voter(1)]))
    assert "1 voter among 3 brokers" in only(found_in(many), "small-quorum", Severity.WARNING).what
    assert found_in(evidence(cluster(partition(0, [1]), racks=["a"]))) == []


def test_a_voter_that_does_not_follow_is_named() -> None:
    voters = [voter(1), voter(2, lag=5_000, caught_up_ms_ago=60_000), voter(3)]
    finding = only(found_in(evidence(cluster(voters=voters))), "voter-behind", Severity.WARNING)
    assert finding.evidence == ("5,000 records behind, last caught up 1 m ago",)


def advertised(*hosts: str) -> ClusterState:
    brokers = tuple(
        BrokerState(id=node, host=host, port=9092, rack=None, is_fenced=False)
        for node, host in enumerate(hosts, start=1)
    )
    return replace(cluster(), brokers=brokers)


@pytest.mark.parametrize(
    ("hosts", "unreachable", "words"),
    [
        (("host1", "0.0.0.0"), {}, "no address that anybody can connect to"),
        (("host1", "localhost"), {}, "take for themselves"),
        (("host1", "host1"), {}, "so does broker 1"),
        (("host1", "host2"), {2: "timed out"}, "nobody answers this machine: timed out"),
    ],
)
def test_an_advertised_address_that_leads_nowhere_is_named(
    hosts: tuple[str, ...], unreachable: dict[int, str], words: str
) -> None:
    found = found_in(evidence(advertised(*hosts), unreachable=unreachable))
    finding = only(found, "advertised-listener", Severity.CRITICAL)
    assert "broker 2" in finding.what
    assert words in finding.evidence[0]


def test_brokers_on_this_machine_may_advertise_it() -> None:
    assert found_in(evidence(advertised("localhost"), bootstrap_host="localhost")) == []


def test_a_throttle_that_somebody_forgot_is_named() -> None:
    finding = only(found_in(evidence(throttled_topics=["t"])), "forgotten-throttle", Severity.WARNING)
    assert "reassign throttle none" in finding.fix[0]


def test_a_move_to_a_broker_that_is_down_is_named_with_the_way_out() -> None:
    moving = {
        P0: Reassignment(replicas=(1, 2, 3), adding=(3,), removing=(2,)),
        P1: Reassignment(replicas=(1, 9), adding=(9,), removing=()),
        P2: Reassignment(replicas=(1, 2), adding=(2,), removing=()),
    }
    state = cluster(partition(0, [1, 2, 3], isr=[1, 2]), fenced=[3], reassignments=moving)
    finding = next(each for each in found_in(evidence(state)) if each.kind == "stuck-move")
    assert finding.what == "moves of 2 partitions wait for a broker that is down"
    assert finding.evidence == ("to broker 3: t-0", "to broker 9: t-1")
    assert "ottla cluster decommission 3" in finding.fix[1]


def test_a_move_is_no_trouble() -> None:
    moving = {P0: Reassignment(replicas=(1, 2, 3), adding=(3,), removing=())}
    assert found_in(evidence(cluster(partition(0, [1, 2, 3], isr=[1, 2]), reassignments=moving))) == []
