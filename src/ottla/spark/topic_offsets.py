"""What a source asks the cluster while it plans: which partitions there are, where they begin and end, how large they are.

Runs on the driver. Every look-up is one request to each leader, however many partitions it leads; only a look at the
batches themselves is one for each. A broker that restarts or a leader that moves is waited for.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Self, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.types import Offset, TimestampMs, TopicPartition
from ottla.client.errors import ClientError, coded_error
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.fetching import PartitionReader
from ottla.client.raw.group_offsets import commit_offsets, fetch_offsets
from ottla.client.raw.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.raw.patience import COORDINATOR_PASSING, LEADER_PASSING, patiently
from ottla.spark.byte_profile import BatchesFrom, Look, LookAt
from ottla.spark.options import OptionError
from ottla.spark.source_options import EARLIEST as EARLIEST_RULE
from ottla.spark.source_options import GROUP_PREFIX, Bound, SourceOptions
from ottla.wire import api

Offsets = dict[TopicPartition, Offset]
T = TypeVar("T")
Topic = api.MetadataResponse.MetadataResponseTopic

PASSING: Final = COORDINATOR_PASSING | LEADER_PASSING
LOOK_BYTES: Final = 64 << 10  # The first batch comes whole, however large; further ones make small batches count.
COUNT_BYTES_MAX: Final = 1 << 20


class TopicOffsets:
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(
            options.bootstrap_servers,
            client_id="ottla-spark",
            timeout_s=options.timeout_seconds,
            security=options.security,
        )

    def close(self) -> None:
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _patiently(self, ask: Callable[[], T]) -> T:
        return patiently(ask, passing=PASSING, timeout_s=self._options.timeout_seconds)

    # -- partitions --------------------------------------------------------------------------------------------------

    def partitions(self) -> list[TopicPartition]:
        return self.partitions_and_ids()[0]

    def partitions_and_ids(self, *, only_there: bool = False) -> tuple[list[TopicPartition], dict[str, str]]:
        """All that is to be read, and the id of each topic, by its name. A topic that is not there is an error, or,
        with `only_there`, left out."""
        topics = self._topics(only_there=only_there)
        ids = {topic.name or "": topic.topic_id.hex for topic in topics}
        if self._options.assigned:
            return sorted(one for one in self._options.assigned if one.topic in ids), ids
        partitions = [
            TopicPartition(topic.name or "", one.partition_index) for topic in topics for one in topic.partitions
        ]
        return sorted(partitions), ids

    def _topics(self, *, only_there: bool) -> list[Topic]:
        pattern = self._options.topic_pattern
        if not pattern:
            return self._patiently(lambda: self._named_topics(only_there=only_there))
        found = self._patiently(lambda: self._cluster.metadata(None)).topics
        return [one for one in found if one.name and not one.is_internal and re.fullmatch(pattern, one.name)]

    def _named_topics(self, *, only_there: bool) -> list[Topic]:
        topics = self._cluster.metadata(self._options.topic_names).topics
        if only_there:
            topics = [topic for topic in topics if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        for topic in topics:
            if topic.error_code != ErrorCode.NONE:
                raise topic_error(topic.name or "", topic.error_code)
        return list(topics)

    # -- offsets -----------------------------------------------------------------------------------------------------

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._at_timestamp(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Up to where there is something to read: with read_committed the last stable offset."""
        return self._at_timestamp(dict.fromkeys(partitions, LATEST))

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Up to where there are records, decided or not."""
        found = self._listed(dict.fromkeys(partitions, LATEST), read_committed=False)
        return {partition: offset or 0 for partition, offset in found.items()}

    def since(
        self, partitions: Iterable[TopicPartition], timestamp_ms: TimestampMs
    ) -> dict[TopicPartition, Offset | None]:
        """The first record at or after a time; None where there is none."""
        return self._listed(dict.fromkeys(partitions, timestamp_ms), read_committed=self._options.read_committed)

    def starting(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._resolve(self._options.starting, list(partitions), if_nothing_after=None)

    def ending(self, partitions: Iterable[TopicPartition]) -> Offsets:
        partitions = list(partitions)
        return self._resolve(self._options.ending, partitions, if_nothing_after=self.latest(partitions))

    def _resolve(self, bound: Bound, partitions: list[TopicPartition], if_nothing_after: Offsets | None) -> Offsets:
        if bound.timestamp_ms is not None:
            return self._by_timestamp(dict.fromkeys(partitions, bound.timestamp_ms), if_nothing_after)
        if bound.timestamps_ms:
            _check_named("timestamps", bound.timestamps_ms, partitions)
            return self._by_timestamp(bound.timestamps_ms, if_nothing_after)
        if bound.offsets:
            _check_named("offsets", bound.offsets, partitions)
            relative = {one: offset for one, offset in bound.offsets.items() if offset < 0}
            return {**bound.offsets, **self._at_timestamp(relative)}
        if bound.rule.startswith(GROUP_PREFIX):
            return self._committed(bound.rule.removeprefix(GROUP_PREFIX), partitions)
        return self.earliest(partitions) if bound.rule == EARLIEST_RULE else self.latest(partitions)

    def _by_timestamp(self, wanted: Mapping[TopicPartition, TimestampMs], if_nothing_after: Offsets | None) -> Offsets:
        found = self._listed(wanted, read_committed=self._options.read_committed)
        missing = [partition for partition, offset in found.items() if offset is None]
        if missing and if_nothing_after is None and not self._options.unmatched_timestamp_is_latest:
            raise OptionError(
                f"no record at or after {wanted[missing[0]]} in {missing[0]}: set "
                "startingOffsetsByTimestampStrategy=latest to begin at the end there"
            )
        ends = if_nothing_after or self.latest(missing)
        return {one: ends[one] if offset is None else offset for one, offset in found.items()}

    def _at_timestamp(self, wanted: Mapping[TopicPartition, TimestampMs]) -> Offsets:
        found = self._listed(wanted, read_committed=self._options.read_committed)
        return {partition: offset or 0 for partition, offset in found.items()}

    def _listed(
        self, wanted: Mapping[TopicPartition, TimestampMs], *, read_committed: bool
    ) -> dict[TopicPartition, Offset | None]:
        if not wanted:
            return {}
        return self._patiently(lambda: list_offsets(self._cluster, wanted, read_committed=read_committed))

    # -- groups ------------------------------------------------------------------------------------------------------

    def _committed(self, group_id: str, partitions: list[TopicPartition]) -> Offsets:
        """What a group has committed; where it has nothing, the earliest."""
        committed = self._patiently(lambda: fetch_offsets(self._cluster, group_id, partitions))
        missing = [partition for partition in partitions if partition not in committed]
        return {**committed, **self.earliest(missing)}

    def mirror(self, group_id: str, offsets: Offsets) -> None:
        """Commits for a group that has no members, so that lag tools see how far the query is."""
        self._patiently(lambda: commit_offsets(self._cluster, group_id, offsets))

    # -- sizes -------------------------------------------------------------------------------------------------------

    def look_at(self, partition: TopicPartition) -> LookAt:
        """See byte_profile.py."""
        batches_from = self.batches_from(partition, LOOK_BYTES)

        def look(offset: Offset) -> Look:
            found = batches_from(offset)
            if not found:
                return Look(offset, offset + 1, 0)
            return Look(min(offset, found[0].start), found[-1].end, sum(batch.size_bytes for batch in found))

        return look

    def batches_from(self, partition: TopicPartition, wanted_bytes: float) -> BatchesFrom:
        """`wanted_bytes` in all: no more is asked for at a time, within bounds."""
        reader = PartitionReader(
            self._cluster,
            partition,
            read_committed=self._options.read_committed,
            fetch_bytes=min(max(int(wanted_bytes), LOOK_BYTES), COUNT_BYTES_MAX),
            max_wait_ms=0,
            timeout_s=self._options.timeout_seconds,
        )

        def batches(offset: Offset) -> list[Look]:
            try:
                found = reader.fetch(offset).batches
            except ClientError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE.name:
                    raise
                return []  # Gone: the task that wants to read it decides whether that is an error.
            return [Look(one.header.base_offset, one.header.next_offset, len(one.view)) for one in found]

        return batches


def topic_error(topic: str, code: int) -> ClientError:
    return coded_error(code, f"looking for the partitions of {topic}")


def _check_named(what: str, named: Mapping[TopicPartition, int], partitions: list[TopicPartition]) -> None:
    missing = sorted(set(partitions) ^ set(named))
    if missing:
        raise OptionError(f"the starting or ending {what} name other partitions than those that are read: {missing[0]}")
