"""A cluster under the controller's decisions that loses processes, connections and unsynced bytes at any moment.

Brokers are modelled by their logs alone: a leader appends, followers copy, the watermark is what all in sync have while
enough are in sync. Bytes are lost within the fault budget: of each partition fewer copies than `min.insync.replicas`
have lost some without having entered the ISR again since. Then no leader may ever lack a committed record, except
where the topic allows unclean elections.
"""

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from ottla.base.errors import ApiError
from ottla.metadata.controller.alter_partition import decide_alter_partition
from ottla.metadata.controller.broker_partitions import plan_log_comparison
from ottla.metadata.controller.brokers import decide_fence_broker, decide_register_broker, decide_unregister_broker
from ottla.metadata.controller.elections import (
    decide_balance_leaders,
    decide_elect_leaders,
    decide_elect_where_leaderless,
)
from ottla.metadata.controller.electorate import NO_STATIC_CONFIGS, LogEnd
from ottla.metadata.controller.heartbeats import decide_heartbeat
from ottla.metadata.controller.reassignments import decide_alter_reassignments
from ottla.metadata.controller.sessions import BrokerSessions
from ottla.metadata.controller.topics import decide_create_topics
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image_parts import PartitionImage
from ottla.wire import api
from tests.unit.metadata.cluster import image_of, replay
from tests.unit.metadata.cluster import settings as controller_settings

BROKERS = (1, 2, 3, 4, 5)
SESSION_TIMEOUT_MS = 9000
LOOK_MS = 1000


@dataclass(frozen=True)
class Topic:
    replication_factor: int
    min_isr: int
    unclean: bool = False


TOPICS = {
    "one": Topic(1, 1),
    "pair": Topic(2, 1),
    "loose": Topic(3, 1),
    "firm": Topic(3, 2),
    "strict": Topic(4, 3),
    "unclean": Topic(3, 2, unclean=True),
}
PARTITIONS = tuple((name, 0) for name in TOPICS)


@dataclass
class Broker:
    """A process, as the model sees it."""

    is_up: bool = False
    is_connected: bool = True
    is_stopping: bool = False
    epoch: int = -1
    incarnation: int = 0
    clean_epoch: int = -1
    """That of an orderly shutdown; none after a crash."""

    @property
    def serves(self) -> bool:
        return self.is_up and self.is_connected


@dataclass
class Log:
    """One partition: what each broker holds, what is committed, who lost bytes. Records are (leader epoch, number)."""

    copies: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    committed: list[tuple[int, int]] = field(default_factory=list)
    damaged: set[int] = field(default_factory=set)
    leading_epoch: int = -1
    epoch_start: int = 0
    next_number: int = 0


def common_length(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)


class ControllerFailed(Exception):
    pass


class Cluster:
    def __init__(self) -> None:
        self.image = image_of(brokers=0)
        self.sessions = BrokerSessions(SESSION_TIMEOUT_MS)
        self.now_ms = 0
        self.brokers = {broker_id: Broker() for broker_id in BROKERS}
        self.logs = {key: Log() for key in PARTITIONS}
        self.proposed_isr: list[int] = []
        self.seen: Counter[str] = Counter()
        self.records_left: int | None = None
        """How much of its next long decision the controller writes before it dies."""
        for broker_id in BROKERS:
            self.start(broker_id)
        self.heartbeats()
        self._create_topics()

    def _create_topics(self) -> None:
        request = api.CreateTopicsRequest(
            topics=[
                api.CreateTopicsRequest.CreatableTopic(
                    name=name,
                    num_partitions=1,
                    replication_factor=topic.replication_factor,
                    configs=[
                        api.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                        for key, value in (
                            ("min.insync.replicas", str(topic.min_isr)),
                            ("unclean.leader.election.enable", str(topic.unclean).lower()),
                        )
                    ],
                )
                for name, topic in TOPICS.items()
            ]
        )
        self.apply(decide_create_topics(self.image, request, controller_settings(), describe_configs=False))

    # ---- the image ----

    def partition(self, key: tuple[str, int]) -> PartitionImage:
        name, number = key
        return self.image.topics[name].partitions[number]

    def partitions(self) -> dict[tuple[str, int], PartitionImage]:
        return {key: self.partition(key) for key in PARTITIONS}

    def apply(self, decision):
        if decision.records:
            before = {} if not self.image.topics else self.partitions()
            replay(self.image, *decision.records[: self.records_left])
            for key, old in before.items():
                self._follow(key, old, self.partition(key))
            if self.records_left is not None and len(decision.records) > self.records_left:
                raise ControllerFailed
        return decision.reply

    def _follow(self, key: tuple[str, int], old: PartitionImage, new: PartitionImage) -> None:
        """Where a new leader comes from; and brokers delete what is not theirs any more."""
        log = self.logs[key]
        if new.leader not in (-1, *old.isr, *old.eligible_leader_replicas, *self.proposed_isr):
            was_nobody_left = not (old.isr or old.eligible_leader_replicas)
            assert TOPICS[key[0]].unclean or (was_nobody_left and new.leader in old.last_known_elr)
            assert new.leader_recovery_state
            suspects = "elected by comparing logs" if len(old.last_known_elr) > 1 else "elected alone"
            self.seen["elected uncleanly" if TOPICS[key[0]].unclean else suspects] += 1
        elif new.leader != old.leader and new.leader in old.eligible_leader_replicas:
            self.seen["elected from the eligible"] += 1
        self.seen["moved"] += old.is_moving and not new.is_moving and new.replicas == old.target_replicas
        for replica in set(old.replicas) - set(new.replicas):
            log.copies.pop(replica, None)
            log.damaged.discard(replica)

    # ---- processes ----

    def start(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        if broker.is_up:
            return
        broker.incarnation += 1
        request = api.BrokerRegistrationRequest(
            broker_id=broker_id,
            incarnation_id=UUID(int=broker_id * 10_000 + broker.incarnation),
            features=[
                api.BrokerRegistrationRequest.Feature(
                    name=name, min_supported_version=one.min_version, max_supported_version=one.max_version
                )
                for name, one in SUPPORTED_FEATURES.items()
            ],
            log_dirs=[UUID(int=50_000 + broker_id)],
            previous_broker_epoch=broker.clean_epoch,
        )
        registered = self.image.brokers.get(broker_id)
        is_alive = registered is not None and self.sessions.is_in_contact(registered, self.now_ms)
        try:
            broker.epoch = self.apply(decide_register_broker(self.image, request, is_alive=is_alive))
        except ApiError:
            return  # The session of the old one has to end first.
        broker.is_up, broker.is_connected, broker.is_stopping, broker.clean_epoch = True, True, False, -1

    def heartbeat(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        request = api.BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            current_metadata_offset=self.image.offset,
            want_shut_down=broker.is_stopping,
        )
        self.sessions.on_heartbeat(self.image, request, self.now_ms)
        try:
            decision = decide_heartbeat(self.image, request, self.sessions, static_configs=NO_STATIC_CONFIGS)
        except ApiError:
            broker.is_up = False  # It was unregistered.
            return
        if self.apply(decision).should_shut_down:
            broker.is_up, broker.clean_epoch = False, broker.epoch
        if decision.records:
            self.elect_where_leaderless()

    def elect_where_leaderless(self) -> None:
        log_ends = self.log_ends()
        self.apply(decide_elect_where_leaderless(self.image, static_configs=NO_STATIC_CONFIGS, log_ends=log_ends))

    def log_ends(self):
        return {
            (ref.topic.id, ref.number): {
                one: self.log_end((ref.topic.name, ref.number), one) for one in ref.partition.last_known_elr
            }
            for ref in plan_log_comparison(self.image)
        }

    def log_end(self, key: tuple[str, int], broker_id: int) -> LogEnd:
        has = self.logs[key].copies.get(broker_id, [])
        return LogEnd(has[-1][0] if has else -1, len(has))

    def heartbeats(self) -> None:
        for broker_id, broker in self.brokers.items():
            if broker.serves:
                self.heartbeat(broker_id)

    def kill(self, broker_id: int, lost_records: int) -> None:
        """The process ends; where the budget allows it, its logs lose their last records, too."""
        broker = self.brokers[broker_id]
        if not broker.is_up:
            return
        broker.is_up = False
        for (name, _), log in self.logs.items():
            has = log.copies.get(broker_id)
            if has and lost_records and len(log.damaged | {broker_id}) < TOPICS[name].min_isr:
                log.damaged.add(broker_id)
                self.seen["lost bytes"] += 1
                del has[max(0, len(has) - lost_records) :]

    def notice(self, broker_id: int) -> None:
        """Somebody finds that nobody answers there any more."""
        if not self.brokers[broker_id].is_up:
            self.sessions.on_gone(self.image, broker_id, self.brokers[broker_id].epoch, self.now_ms)

    def take_over(self) -> None:
        """Another controller, which knows what is written and nothing else."""
        self.seen["controller failed"] += 1
        self.records_left = None
        self.sessions = BrokerSessions(SESSION_TIMEOUT_MS)
        self.elect_where_leaderless()

    def pass_time(self, duration_ms: int) -> None:
        for _ in range(0, duration_ms, LOOK_MS):
            self.now_ms += LOOK_MS
            self.heartbeats()
            for broker in self.sessions.expired(self.image, self.now_ms):
                self.apply(decide_fence_broker(self.image, broker.id, broker.epoch))

    # ---- data ----

    def is_led(self, key: tuple[str, int]) -> bool:
        """By a process that serves: a dead one may be elected before anybody knows."""
        partition = self.partition(key)
        if partition.leader == -1 or not self.is_current(partition.leader):
            return False
        if self.logs[key].leading_epoch != partition.leader_epoch:
            self._begin_leading(key, partition)
        return True

    def _begin_leading(self, key: tuple[str, int], partition: PartitionImage) -> None:
        log = self.logs[key]
        has = log.copies.setdefault(partition.leader, [])
        if TOPICS[key[0]].unclean and partition.leader_recovery_state:
            log.committed = has[: len(log.committed)]
        assert has[: len(log.committed)] == log.committed, f"{key}: {partition} lacks committed records"
        log.leading_epoch, log.epoch_start = partition.leader_epoch, len(has)
        log.damaged.discard(partition.leader)

    def is_current(self, broker_id: int) -> bool:
        """It serves, and not under an older epoch than the one it is registered with."""
        broker, registered = self.brokers[broker_id], self.image.brokers.get(broker_id)
        return broker.serves and registered is not None and registered.epoch == broker.epoch

    def produce(self, key: tuple[str, int], count: int) -> None:
        log, partition = self.logs[key], self.partition(key)
        if self.is_led(key):
            for _ in range(count):
                log.copies[partition.leader].append((partition.leader_epoch, log.next_number))
                log.next_number += 1
            self.advance(key)

    def fetch(self, key: tuple[str, int], follower: int, count: int) -> None:
        """The follower cuts off what the leader does not have, and copies what it has more."""
        log, partition = self.logs[key], self.partition(key)
        if not self.is_led(key) or follower == partition.leader or follower not in partition.replicas:
            return
        if not self.is_current(follower):
            return
        leads, has = log.copies.setdefault(partition.leader, []), log.copies.setdefault(follower, [])
        del has[common_length(leads, has) :]
        has += leads[len(has) : len(has) + count]
        self.advance(key)

    def advance(self, key: tuple[str, int]) -> None:
        """The watermark: what all in sync have, while enough are in sync."""
        log, partition = self.logs[key], self.partition(key)
        if not self.is_led(key) or len(partition.isr) < min(TOPICS[key[0]].min_isr, partition.replication_factor):
            return
        leads = log.copies[partition.leader]
        mark = min(common_length(leads, log.copies.get(replica, [])) for replica in partition.isr)
        if mark > len(log.committed):
            assert leads[: len(log.committed)] == log.committed
            log.committed = leads[:mark]

    def propose(self, key: tuple[str, int], isr: list[int]) -> None:
        partition, topic_id = self.partition(key), self.image.topics[key[0]].id
        proposal = api.AlterPartitionRequest.PartitionData(
            partition_index=key[1],
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                api.AlterPartitionRequest.BrokerState(broker_id=one, broker_epoch=self.brokers[one].epoch)
                for one in isr
            ],
        )
        request = api.AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=self.brokers[partition.leader].epoch,
            topics=[api.AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=[proposal])],
        )
        self.proposed_isr = isr
        self.apply(decide_alter_partition(self.image, request, static_configs=NO_STATIC_CONFIGS))
        self.proposed_isr = []
        self.advance(key)

    def expand(self, key: tuple[str, int], follower: int) -> None:
        """A follower that has all that the leader had at its election, and all that is committed, is in sync."""
        log, partition = self.logs[key], self.partition(key)
        if not self.is_led(key) or follower in partition.isr or follower not in partition.replicas:
            return
        leads, has = log.copies.get(partition.leader, []), log.copies.get(follower, [])
        caught_up = len(has) >= max(log.epoch_start, len(log.committed)) and leads[: len(has)] == has
        if caught_up and self.is_current(follower):
            self.propose(key, [*partition.isr, follower])
            if follower in self.partition(key).isr:
                log.damaged.discard(follower)

    def shrink(self, key: tuple[str, int], follower: int) -> None:
        partition = self.partition(key)
        if self.is_led(key) and follower in partition.isr and follower != partition.leader:
            self.propose(key, [one for one in partition.isr if one != follower])

    # ---- the administrator ----

    def reassign(self, key: tuple[str, int], replicas: list[int] | None) -> None:
        wanted = api.AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=key[1], replicas=replicas)
        topics = [api.AlterPartitionReassignmentsRequest.ReassignableTopic(name=key[0], partitions=[wanted])]
        request = api.AlterPartitionReassignmentsRequest(topics=topics)
        reply = self.apply(decide_alter_reassignments(self.image, request, static_configs=NO_STATIC_CONFIGS))
        refusal = reply.responses[0].partitions[0].error_message or ""
        self.seen["reassignment refused"] += "would be left" in refusal

    def elect(self, election_type: int) -> None:
        request = api.ElectLeadersRequest(election_type=election_type, topic_partitions=None)
        if election_type == 1:
            partitions = [api.ElectLeadersRequest.TopicPartitions(topic="unclean", partitions=[0])]
            request.topic_partitions = partitions
        self.apply(decide_elect_leaders(self.image, request))

    def balance(self) -> None:
        self.apply(decide_balance_leaders(self.image, static_configs=NO_STATIC_CONFIGS))

    def unregister(self, broker_id: int) -> None:
        if not self.brokers[broker_id].is_up and broker_id in self.image.brokers:
            request = api.UnregisterBrokerRequest(broker_id=broker_id)
            self.apply(decide_unregister_broker(self.image, request, static_configs=NO_STATIC_CONFIGS))

    def recover(self) -> None:
        """Everybody comes back and catches up: then every partition has a leader and everybody is in sync."""
        self.records_left = None
        for broker in self.brokers.values():
            broker.is_connected = True
            broker.is_stopping = False
        self.pass_time(2 * SESSION_TIMEOUT_MS)
        for broker_id in BROKERS:
            self.start(broker_id)
        self.pass_time(LOOK_MS)
        for key in PARTITIONS:
            for follower in BROKERS:
                self.fetch(key, follower, 1_000_000)
                self.expand(key, follower)
