"""Broker configurations of the coordinators (groups, offsets, transactions, share and streams groups) and of tiering.

Known and checked from the first day, so that a configuration written for Kafka starts here; which of them have an
effect yet is listed in docs/GAPS.md.
"""

from typing import Final

from ottla.metadata.config_key import (
    INT_MAX,
    LONG_MAX,
    ConfigKey,
    between,
    double,
    flag,
    int16,
    int32,
    int64,
    names,
    one_of,
    text,
)

MIGRATION_POLICY: Final = one_of("disabled", "downgrade", "upgrade", "bidirectional", ignore_case=True)
REBALANCE_PROTOCOLS: Final = one_of("classic", "consumer", "share", "streams")

# fmt: off
GROUP_KEYS: Final[tuple[ConfigKey, ...]] = (
    int32("group.consumer.assignment.interval.ms", 1000, "Shortest time between two assignments.", minimum=0),
    names("group.consumer.assignors", ("uniform", "range"), "Server-side assignors, the default first."),
    int32("group.consumer.heartbeat.interval.ms", 5000, "Heartbeat interval of consumer groups.", minimum=1),
    int32("group.consumer.max.assignment.interval.ms", 15_000, "Greatest assignment interval of a group.", minimum=0),
    int32("group.consumer.max.heartbeat.interval.ms", 15_000, "Greatest heartbeat interval of a group.", minimum=1),
    int32("group.consumer.max.session.timeout.ms", 60_000, "Greatest session time-out of a group.", minimum=1),
    int32("group.consumer.max.size", INT_MAX, "Members of a consumer group at most.", minimum=1),
    text("group.consumer.migration.policy", "bidirectional", "Which moves between classic and consumer groups are"
         " allowed.", check=MIGRATION_POLICY),
    int32("group.consumer.min.assignment.interval.ms", 0, "Least assignment interval of a group.", minimum=0),
    int32("group.consumer.min.heartbeat.interval.ms", 5000, "Least heartbeat interval of a group.", minimum=1),
    int32("group.consumer.min.session.timeout.ms", 45_000, "Least session time-out of a group.", minimum=1),
    int32("group.consumer.regex.refresh.interval.ms", 600_000, "Time between resolutions of a pattern.", minimum=10_000,
          internal=True),
    int32("group.consumer.session.timeout.ms", 45_000, "Silence after which a member is removed.", minimum=1),
    int32("group.coordinator.append.linger.ms", -1, "Longest wait to gather coordinator writes; -1 adapts.",
          minimum=-1),
    int32("group.coordinator.background.threads", 2, "Accepted and shown; one event loop serves here.", minimum=1),
    int32("group.coordinator.cached.buffer.max.bytes", 1_048_588, "Largest buffer kept for writes.", minimum=524_288),
    names("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"), "Group protocols offered.",
          check=REBALANCE_PROTOCOLS),
    int32("group.coordinator.threads", 4, "Accepted and shown; one event loop serves here.", minimum=1),
    int32("group.initial.rebalance.delay.ms", 3000, "How long a new classic group waits for members."),
    int32("group.max.session.timeout.ms", 1_800_000, "Greatest session time-out of a classic member."),
    int32("group.max.size", INT_MAX, "Members of a classic group at most.", minimum=1),
    int32("group.min.session.timeout.ms", 6000, "Least session time-out of a classic member."),
    int32("offset.metadata.max.bytes", 4096, "Largest text committed with an offset."),
    int32("offsets.commit.timeout.ms", 15_000, "How long a commit waits for replicas; Kafka's default is 5000, less than"
          " a broker that stands still takes to leave the ISR.", minimum=1),
    int32("offsets.load.buffer.size", 5 << 20, "Bytes read at once when offsets are loaded.", minimum=1),
    int64("offsets.retention.check.interval.ms", 600_000, "Time between looks for expired offsets.", minimum=1),
    int32("offsets.retention.minutes", 10_080, "How long the offsets of an empty group are kept.", minimum=1),
    int32("offsets.topic.compression.codec", 0, "Codec of the offsets topic; 0 is none."),
    int32("offsets.topic.num.partitions", 50, "Partitions of the offsets topic; never change it later.", minimum=1),
    int16("offsets.topic.replication.factor", 3, "Replicas of the offsets topic; unless set, no more than there are"
          " brokers.", minimum=1),
    int32("offsets.topic.segment.bytes", 100 << 20, "Segment size of the offsets topic.", minimum=1),
)

SHARE_KEYS: Final[tuple[ConfigKey, ...]] = (
    int32("group.share.assignment.interval.ms", 1000, "Shortest time between two assignments.", minimum=0),
    names("group.share.assignors", ("simple",), "Assignors of share groups."),
    int32("group.share.delivery.count.limit", 5, "Deliveries of a record before it is given up.", check=between(2, 10)),
    int32("group.share.heartbeat.interval.ms", 5000, "Heartbeat interval of share groups.", minimum=1),
    int32("group.share.initialize.retry.interval.ms", 30_000, "Rest before a share state is initialized again.",
          minimum=1, internal=True),
    int32("group.share.max.assignment.interval.ms", 15_000, "Greatest assignment interval of a group.", minimum=0),
    int32("group.share.max.delivery.count.limit", 10, "Greatest delivery limit of a group.", check=between(5, 25)),
    int32("group.share.max.heartbeat.interval.ms", 15_000, "Greatest heartbeat interval of a group.", minimum=1),
    int32("group.share.max.partition.max.record.locks", 4000, "Greatest number of locks of a group.",
          check=between(2000, 10_000)),
    int32("group.share.max.record.lock.duration.ms", 60_000, "Greatest lock duration of a group.",
          check=between(30_000, 3_600_000)),
    int32("group.share.max.session.timeout.ms", 60_000, "Greatest session time-out of a group.", minimum=1),
    int32("group.share.max.share.sessions", 2000, "Share sessions of a broker.", minimum=1),
    int32("group.share.max.size", 200, "Members of a share group at most.", check=between(1, 1000)),
    int32("group.share.min.assignment.interval.ms", 0, "Least assignment interval of a group.", minimum=0),
    int32("group.share.min.delivery.count.limit", 2, "Least delivery limit of a group.", check=between(2, 5)),
    int32("group.share.min.heartbeat.interval.ms", 5000, "Least heartbeat interval of a group.", minimum=1),
    int32("group.share.min.partition.max.record.locks", 100, "Least number of locks of a group.",
          check=between(100, 2000)),
    int32("group.share.min.record.lock.duration.ms", 15_000, "Least lock duration of a group.",
          check=between(1000, 30_000)),
    int32("group.share.min.session.timeout.ms", 45_000, "Least session time-out of a group.", minimum=1),
    int32("group.share.partition.max.record.locks", 2000, "Records of a partition in delivery at once.",
          check=between(100, 10_000)),
    text("group.share.persister.class.name", None, "Java class that keeps share state; no effect here.", internal=True),
    int32("group.share.record.lock.duration.ms", 30_000, "How long a delivered record waits for its acknowledgement.",
          check=between(1000, 3_600_000)),
    int32("group.share.session.timeout.ms", 45_000, "Silence after which a member is removed.", minimum=1),
    int32("share.coordinator.append.linger.ms", -1, "Longest wait to gather share state; -1 adapts.", minimum=-1),
    int32("share.coordinator.cached.buffer.max.bytes", 1_048_588, "Largest buffer kept for writes.", minimum=524_288),
    int32("share.coordinator.cold.partition.snapshot.interval.ms", 300_000, "Time between snapshots of idle state.",
          minimum=1, internal=True),
    int32("share.coordinator.load.buffer.size", 5 << 20, "Bytes read at once when share state is loaded.", minimum=1),
    int32("share.coordinator.snapshot.update.records.per.snapshot", 500, "Changes between snapshots of share state.",
          check=between(0, 500)),
    int32("share.coordinator.state.topic.compression.codec", 0, "Codec of the share state topic; 0 is none."),
    int16("share.coordinator.state.topic.min.isr", 2, "In-sync replicas the share state topic needs.", minimum=1),
    int32("share.coordinator.state.topic.num.partitions", 50, "Partitions of the share state topic.", minimum=1),
    int32("share.coordinator.state.topic.prune.interval.ms", 300_000, "Time between cuts of old share state.",
          minimum=1, internal=True),
    int16("share.coordinator.state.topic.replication.factor", 3, "Replicas of the share state topic.", minimum=1),
    int32("share.coordinator.state.topic.segment.bytes", 100 << 20, "Segment size of the share state topic.",
          minimum=1),
    int32("share.coordinator.threads", 1, "Accepted and shown; one event loop serves here.", minimum=1),
    int32("share.coordinator.write.timeout.ms", 5000, "How long a write of share state waits for replicas.", minimum=1),
    int32("share.fetch.purgatory.purge.interval.requests", 1000, "Accepted and shown; waits hold no garbage here."),
)

STREAMS_KEYS: Final[tuple[ConfigKey, ...]] = (
    int32("group.streams.assignment.interval.ms", 1000, "Shortest time between two assignments.", minimum=0),
    int32("group.streams.heartbeat.interval.ms", 5000, "Heartbeat interval of streams groups.", minimum=1),
    int32("group.streams.initial.rebalance.delay.ms", 3000, "How long a new streams group waits.", minimum=0),
    int32("group.streams.max.assignment.interval.ms", 15_000, "Greatest assignment interval of a group.", minimum=0),
    int32("group.streams.max.heartbeat.interval.ms", 15_000, "Greatest heartbeat interval of a group.", minimum=1),
    int32("group.streams.max.session.timeout.ms", 60_000, "Greatest session time-out of a group.", minimum=1),
    int32("group.streams.max.size", INT_MAX, "Members of a streams group at most.", minimum=1),
    int32("group.streams.max.standby.replicas", 2, "Greatest number of standby tasks of a group.", minimum=0),
    int32("group.streams.min.assignment.interval.ms", 0, "Least assignment interval of a group.", minimum=0),
    int32("group.streams.min.heartbeat.interval.ms", 5000, "Least heartbeat interval of a group.", minimum=1),
    int32("group.streams.min.session.timeout.ms", 45_000, "Least session time-out of a group.", minimum=1),
    int32("group.streams.num.standby.replicas", 0, "Standby tasks of a group.", minimum=0),
    int32("group.streams.session.timeout.ms", 45_000, "Silence after which a member is removed.", minimum=1),
)

TRANSACTION_KEYS: Final[tuple[ConfigKey, ...]] = (
    int32("add.partitions.to.txn.retry.backoff.max.ms", 100, "Longest wait of a transaction's first write.", minimum=0),
    int32("add.partitions.to.txn.retry.backoff.ms", 20, "Rest before such a write is tried again.", minimum=1),
    int64("ottla.transaction.prepared.max.ms", 604_800_000, "How long a two-phase transaction may stay open; ours.",
          minimum=1),
    int32("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, "Time between looks for transactions"
          " past their time-out.", minimum=1),
    int32("transaction.max.timeout.ms", 900_000, "Longest time-out a transaction may ask for.", minimum=1),
    flag("transaction.partition.verification.enable", True, "Check that a partition belongs to the transaction.",
         live=True),
    int32("transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, "Time between looks for idle"
          " transactional ids.", minimum=1),
    int32("transaction.state.log.load.buffer.size", 5 << 20, "Bytes read at once when transactions are loaded.",
          minimum=1),
    int32("transaction.state.log.min.isr", 2, "In-sync replicas the transaction topic needs.", minimum=1),
    int32("transaction.state.log.num.partitions", 50, "Partitions of the transaction topic.", minimum=1),
    int16("transaction.state.log.replication.factor", 3, "Replicas of the transaction topic; unless set, no more than"
          " there are brokers.", minimum=1),
    int32("transaction.state.log.segment.bytes", 100 << 20, "Segment size of the transaction topic.", minimum=1),
    flag("transaction.two.phase.commit.enable", True, "Serve transactions that others decide upon; Kafka's default is"
         " false."),
    int32("transactional.id.expiration.ms", 604_800_000, "Idle time after which a transactional id is forgotten.",
          minimum=1),
)

TIER_KEYS: Final[tuple[ConfigKey, ...]] = (
    flag("follower.fetch.last.tiered.offset.enable", False, "Let an empty follower start at the tiered end."),
    int32("remote.fetch.max.wait.ms", 500, "Longest wait for the remote tier in a fetch.", minimum=1),
    int64("remote.list.offsets.request.timeout.ms", 30_000, "Longest wait for a remote offset lookup.", minimum=1),
    int64("remote.log.index.file.cache.total.size.bytes", 1 << 30, "Disk for indexes fetched from the tier.",
          minimum=1),
    int64("remote.log.index.file.cache.ttl.ms", 900_000, "Idle time of such an index.", minimum=-1, internal=True),
    int32("remote.log.manager.copier.thread.pool.size", 10, "Uploads at once.", minimum=1),
    int64("remote.log.manager.copy.max.bytes.per.second", LONG_MAX, "Upload bandwidth.", minimum=1),
    int32("remote.log.manager.copy.quota.window.num", 11, "Samples kept to throttle uploads.", minimum=1),
    int32("remote.log.manager.copy.quota.window.size.seconds", 1, "Length of one such sample.", minimum=1),
    int32("remote.log.manager.expiration.thread.pool.size", 10, "Deletions in the tier at once.", minimum=1),
    int64("remote.log.manager.fetch.max.bytes.per.second", LONG_MAX, "Download bandwidth.", minimum=1),
    int32("remote.log.manager.fetch.quota.window.num", 11, "Samples kept to throttle downloads.", minimum=1),
    int32("remote.log.manager.fetch.quota.window.size.seconds", 1, "Length of one such sample.", minimum=1),
    int32("remote.log.manager.follower.thread.pool.size", 2, "Follower tasks at once.", minimum=1),
    int64("remote.log.manager.task.interval.ms", 30_000, "Time between looks for segments to upload.", minimum=1),
    int64("remote.log.manager.task.retry.backoff.max.ms", 30_000, "Longest rest after a failure.", minimum=1,
          internal=True),
    int64("remote.log.manager.task.retry.backoff.ms", 500, "First rest after a failure.", minimum=1, internal=True),
    double("remote.log.manager.task.retry.jitter", 0.2, "Random part of that rest.", check=between(0, 0.5),
           internal=True),
    int32("remote.log.manager.thread.pool.size", 2, "Tier tasks at once.", minimum=1),
    int32("remote.log.metadata.custom.metadata.max.bytes", 128, "Largest metadata a store may add.", minimum=0),
    text("remote.log.metadata.manager.class.name", None, "Java class that keeps tier metadata; no effect here."),
    text("remote.log.metadata.manager.class.path", None, "Java class path of that class; no effect here."),
    text("remote.log.metadata.manager.impl.prefix", "rlmm.config.", "Prefix of that class's settings."),
    text("remote.log.metadata.manager.listener.name", None, "Listener for tier metadata."),
    int32("remote.log.reader.max.pending.tasks", 100, "Downloads that may wait.", minimum=1),
    int32("remote.log.reader.threads", 10, "Downloads at once.", minimum=1),
    text("remote.log.storage.manager.class.name", None, "Java class of the store; no effect here."),
    text("remote.log.storage.manager.class.path", None, "Java class path of that class; no effect here."),
    text("remote.log.storage.manager.impl.prefix", "rsm.config.", "Prefix of that class's settings."),
    flag("remote.log.storage.system.enable", False, "Switch tiered storage on for this node."),
)
# fmt: on

COORDINATOR_KEYS: Final = GROUP_KEYS + SHARE_KEYS + STREAMS_KEYS + TRANSACTION_KEYS + TIER_KEYS
