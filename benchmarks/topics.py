"""Topics of a broker: creating them, and waiting until it really has them.

`wait_all_led` asks Metadata as a client would. `wait_all_served` asks every partition for its end offset, which a
broker can only answer from an opened log.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.peers import Peer, PeerError
from benchmarks.raw_client import raw_client
from ottla.wire import api
from ottla.wire.apis import ApiKey

ADMIN_SECONDS_MAX: Final = 120.0
WAIT_SECONDS_MAX: Final = 300.0
POLL_SECONDS: Final = 0.05

_METADATA_VERSION: Final = 12
_LIST_OFFSETS_VERSION: Final = 7
_LATEST_TIMESTAMP: Final = -1


def create_topics(peer: Peer, partition_counts: Mapping[str, int], *, configs: Mapping[str, str] | None = None) -> None:
    """One after the other: a broker may bound what one decision creates."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 3})
    for name, partition_count in partition_counts.items():
        topic = NewTopic(
            name,
            num_partitions=partition_count,
            replication_factor=peer.replication_factor,
            config=dict(configs or {}),
        )
        for result in admin.create_topics([topic], request_timeout=ADMIN_SECONDS_MAX).values():
            result.result()


def wait_all_led(peer: Peer, partition_counts: Mapping[str, int]) -> None:
    _wait_until(lambda: _are_all_led(peer, partition_counts), f"{peer.name}: partitions without a leader")


def wait_all_served(peer: Peer, partition_counts: Mapping[str, int]) -> None:
    _wait_until(lambda: _are_all_served(peer, partition_counts), f"{peer.name}: partitions without an end offset")


def _are_all_led(peer: Peer, partition_counts: Mapping[str, int]) -> bool:
    topics = [api.MetadataRequest.MetadataRequestTopic(name=name) for name in partition_counts]
    request = api.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    with raw_client(peer.port) as client:
        response = client.ask(ApiKey.METADATA, _METADATA_VERSION, request)
    led = {
        topic.name: sum(partition.error_code == 0 and partition.leader_id >= 0 for partition in topic.partitions)
        for topic in response.topics
    }
    return led == dict(partition_counts)


def _are_all_served(peer: Peer, partition_counts: Mapping[str, int]) -> bool:
    Topic, Partition = api.ListOffsetsRequest.ListOffsetsTopic, api.ListOffsetsRequest.ListOffsetsPartition
    topics = [
        Topic(
            name=name,
            partitions=[
                Partition(partition_index=index, current_leader_epoch=-1, timestamp=_LATEST_TIMESTAMP)
                for index in range(count)
            ],
        )
        for name, count in partition_counts.items()
    ]
    with raw_client(peer.port) as client:
        response = client.ask(
            ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, api.ListOffsetsRequest(replica_id=-1, topics=topics)
        )
    return all(partition.error_code == 0 for topic in response.topics for partition in topic.partitions)


def _wait_until(is_true: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        with suppress(OSError):  # A broker that has just started may still close connections.
            if is_true():
                return
        time.sleep(POLL_SECONDS)
    raise PeerError(f"{complaint} after {WAIT_SECONDS_MAX:.0f} s")
