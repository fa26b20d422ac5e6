"""Every configuration of a group in Kafka 4.3 (KIP-848, KIP-932, KIP-1071), and the broker keys they stand under.

By their names: `consumer.session.timeout.ms` is what `group.consumer.session.timeout.ms` is where the group says
nothing, and stays between `group.consumer.min.session.timeout.ms` and `group.consumer.max.session.timeout.ms`. They are
known, checked and kept from now on; groups of these kinds come later (docs/GAPS.md), classic ones heed none of them.
"""

import re
from typing import Final

from ottla.metadata.config_key import Check, ConfigKey, ConfigValue, flag, int32, one_of, text

GROUP_KINDS: Final = ("consumer", "share", "streams")

_BY_DURATION: Final = re.compile(r"by_duration:P(?=[\dT])(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.IGNORECASE)


def _offset_reset(value: ConfigValue) -> str | None:
    if value in ("earliest", "latest") or _BY_DURATION.fullmatch(str(value)):
        return None
    return f"{value!r} is none of earliest, latest, by_duration:PnDTnHnMn.nS"


OFFSET_RESET: Final[Check] = _offset_reset
ISOLATION_LEVEL: Final = one_of("read_committed", "read_uncommitted")

# fmt: off
GROUP_LEVEL_KEYS: Final[tuple[ConfigKey, ...]] = (
    int32("consumer.assignment.interval.ms", 1000, "Shortest time between two assignments.", minimum=0),
    int32("consumer.heartbeat.interval.ms", 5000, "Heartbeat interval of the group's members.", minimum=1),
    int32("consumer.session.timeout.ms", 45_000, "Silence after which a member is removed.", minimum=1),
    int32("share.assignment.interval.ms", 1000, "Shortest time between two assignments.", minimum=0),
    text("share.auto.offset.reset", "latest", "Where a new share partition begins.", check=OFFSET_RESET),
    int32("share.delivery.count.limit", 5, "Deliveries of a record before it is given up.", minimum=2),
    int32("share.heartbeat.interval.ms", 5000, "Heartbeat interval of the group's members.", minimum=1),
    text("share.isolation.level", "read_uncommitted", "What of transactions the group reads.", check=ISOLATION_LEVEL),
    int32("share.partition.max.record.locks", 2000, "Records of a partition in delivery at once.", minimum=100),
    int32("share.record.lock.duration.ms", 30_000, "How long a delivered record waits for its acknowledgement.",
          minimum=1000),
    flag("share.renew.acknowledge.enable", True, "Let consumers renew the lock of a record."),
    int32("share.session.timeout.ms", 45_000, "Silence after which a member is removed.", minimum=1),
    int32("streams.assignment.interval.ms", 1000, "Shortest time between two assignments.", minimum=0),
    int32("streams.heartbeat.interval.ms", 5000, "Heartbeat interval of the group's members.", minimum=1),
    int32("streams.initial.rebalance.delay.ms", 3000, "How long a new group waits for members.", minimum=0),
    int32("streams.num.standby.replicas", 0, "Standby tasks of each task.", minimum=0),
    int32("streams.session.timeout.ms", 45_000, "Silence after which a member is removed.", minimum=1),
)
# fmt: on


def broker_key_of(group_key: str) -> str:
    """The broker's key that holds for groups that say nothing; not every group key has one."""
    return f"group.{group_key}"


def bound_keys_of(group_key: str) -> tuple[str, str]:
    """The broker's keys of the least and of the greatest value; not every group key has them."""
    kind, _, setting = group_key.partition(".")
    setting = setting.removeprefix("num.")
    return f"group.{kind}.min.{setting}", f"group.{kind}.max.{setting}"
