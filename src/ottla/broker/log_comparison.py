"""How far the logs of the last replicas go, asked of their brokers: for partitions where none surely has every record.

The longest of all of them has what was committed, if any has (KIP-966). An answer counts for the incarnation that gave
it: a broker that was started anew since may have lost what it had.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId, TopicId
from ottla.broker.peers import Peers
from ottla.metadata.controller.electorate import LogEnd, LogEnds
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import PartitionRef
from ottla.wire import api
from ottla.wire.apis import ApiKey

ANSWER_SECONDS_MAX: Final = 2.0
LIST_OFFSETS_VERSION: Final = 9
LATEST: Final = -1
ANY_REPLICA: Final = -2
"""In the place of a replica's id: whoever has the partition answers for its own log, leader or not."""

Request = api.ListOffsetsRequest


class ComparedLogs(NamedTuple):
    ends: dict[tuple[TopicId, int], dict[NodeId, LogEnd]]
    broker_epochs: Mapping[NodeId, int]

    def valid_in(self, image: MetadataImage) -> LogEnds:
        valid = {
            broker_id
            for broker_id, epoch in self.broker_epochs.items()
            if (broker := image.brokers.get(broker_id)) is not None and broker.epoch == epoch
        }
        return {
            key: {broker_id: end for broker_id, end in of_partition.items() if broker_id in valid}
            for key, of_partition in self.ends.items()
        }


async def compare_logs(
    peers: Peers, partitions: Iterable[PartitionRef], broker_epochs: Mapping[NodeId, int]
) -> ComparedLogs:
    """Asks every broker once about all its partitions; who does not answer is not in the result."""
    compared = ComparedLogs({}, broker_epochs)
    asked: dict[NodeId, dict[str, list[PartitionRef]]] = {}
    for ref in partitions:
        for broker_id in ref.partition.last_known_elr:
            asked.setdefault(broker_id, {}).setdefault(ref.topic.name, []).append(ref)
    await asyncio.gather(*(_ask(peers, broker_id, topics, compared) for broker_id, topics in asked.items()))
    return compared


async def _ask(
    peers: Peers, broker_id: NodeId, topics: Mapping[str, list[PartitionRef]], compared: ComparedLogs
) -> None:
    request = Request(
        replica_id=ANY_REPLICA,
        topics=[
            Request.ListOffsetsTopic(
                name=name,
                partitions=[Request.ListOffsetsPartition(partition_index=ref.number, timestamp=LATEST) for ref in refs],
            )
            for name, refs in topics.items()
        ],
    )
    try:
        response: api.ListOffsetsResponse = await peers.ask(
            broker_id, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request, timeout_seconds=ANSWER_SECONDS_MAX
        )
    except ApiError:
        return
    for topic in response.topics:
        topic_id = topics[topic.name][0].topic.id
        for one in topic.partitions:
            if one.error_code == ErrorCode.NONE:
                ends = compared.ends.setdefault((topic_id, one.partition_index), {})
                ends[broker_id] = LogEnd(one.leader_epoch, one.offset)
