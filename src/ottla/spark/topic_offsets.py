"""What a source asks the cluster while it plans: which partitions there are, where they begin and end, how large they are.

Runs on the driver. Every look-up is one request to each leader, however many partitions it leads.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Self

from ottla.base.types import Offset, TimestampMs, TopicPartition
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.group_offsets import commit_offsets, fetch_offsets
from ottla.client.raw.offsets import EARLIEST, LATEST, list_offsets
from ottla.spark.source_options import EARLIEST as EARLIEST_RULE
from ottla.spark.source_options import GROUP_PREFIX, Bound, OptionError, SourceOptions
from ottla.wire import api
from ottla.wire.apis import ApiKey

Offsets = dict[TopicPartition, Offset]


class TopicOffsets:
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.bootstrap_servers, client_id="ottla-spark", timeout_s=options.timeout_seconds)

    def close(self) -> None:
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- partitions --------------------------------------------------------------------------------------------------

    def partitions(self) -> list[TopicPartition]:
        options = self._options
        if options.assigned:
            return sorted(options.assigned)
        topics = self._matching_topics() if options.topic_pattern else options.topics
        return sorted(self._cluster.leaders(topics)) if topics else []

    def _matching_topics(self) -> list[str]:
        answer = self._cluster.metadata(None)
        pattern = re.compile(self._options.topic_pattern)
        return [
            topic.name
            for topic in answer.topics
            if topic.name and not topic.is_internal and pattern.fullmatch(topic.name)
        ]

    # -- offsets -----------------------------------------------------------------------------------------------------

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._at_timestamp(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Up to where there is something to read: with read_committed the last stable offset."""
        return self._at_timestamp(dict.fromkeys(partitions, LATEST))

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
        found = list_offsets(self._cluster, wanted, read_committed=self._options.read_committed)
        missing = [partition for partition, offset in found.items() if offset is None]
        if missing and if_nothing_after is None and not self._options.unmatched_timestamp_is_latest:
            raise OptionError(
                f"no record at or after {wanted[missing[0]]} in {missing[0]}: set "
                "startingOffsetsByTimestampStrategy=latest to begin at the end there"
            )
        ends = if_nothing_after or self.latest(missing)
        return {one: ends[one] if offset is None else offset for one, offset in found.items()}

    def _at_timestamp(self, wanted: Mapping[TopicPartition, TimestampMs]) -> Offsets:
        found = list_offsets(self._cluster, wanted, read_committed=self._options.read_committed) if wanted else {}
        return {partition: offset or 0 for partition, offset in found.items()}

    # -- groups ------------------------------------------------------------------------------------------------------

    def _committed(self, group_id: str, partitions: list[TopicPartition]) -> Offsets:
        """What a group has committed; where it has nothing, the earliest."""
        committed = fetch_offsets(self._cluster, group_id, partitions)
        missing = [partition for partition in partitions if partition not in committed]
        return {**committed, **self.earliest(missing)}

    def mirror(self, group_id: str, offsets: Offsets) -> None:
        """Commits for a group that has no members, so that lag tools see how far the query is."""
        commit_offsets(self._cluster, group_id, offsets)

    # -- sizes -------------------------------------------------------------------------------------------------------

    def bytes_per_offset(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, float]:
        """The mean over each partition's log; a partition whose size nobody tells is left out."""
        partitions = list(partitions)
        first, end = self.earliest(partitions), self.latest(partitions)
        sizes = self._sizes({partition.topic for partition in partitions})
        return {
            one: sizes[one] / (end[one] - first[one]) for one in partitions if one in sizes and end[one] > first[one]
        }

    def _sizes(self, topics: set[str]) -> dict[TopicPartition, int]:
        sizes: dict[TopicPartition, int] = {}
        leaders = self._cluster.leaders(topics)
        for address in {address for address in leaders.values() if address is not None}:
            request = api.DescribeLogDirsRequest(
                topics=[
                    api.DescribeLogDirsRequest.DescribableLogDirTopic(
                        topic=topic,
                        partitions=[
                            one.partition for one, at in leaders.items() if one.topic == topic and at == address
                        ],
                    )
                    for topic in topics
                ]
            )
            answer = self._cluster.ask(ApiKey.DESCRIBE_LOG_DIRS, request, api.DescribeLogDirsResponse, at=address)
            for directory in answer.results:
                for topic in directory.topics:
                    for one in topic.partitions:
                        sizes[TopicPartition(topic.name, one.partition_index)] = one.partition_size
        return sizes


def _check_named(what: str, named: Mapping[TopicPartition, int], partitions: list[TopicPartition]) -> None:
    missing = sorted(set(partitions) ^ set(named))
    if missing:
        raise OptionError(f"the starting or ending {what} name other partitions than those that are read: {missing[0]}")
