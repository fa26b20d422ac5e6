"""A broker that was elected a moment ago, of a few lines: it has every record of one partition, but learns only later
that they are committed. Until then its fetches end before them, and whoever asks for the end is told to ask again. Of the
cluster's features it knows as little when it is asked first.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.base.errors import ErrorCode
from ottla.client.raw.offsets import EARLIEST
from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.message import Message
from tests.unit.server.scripted_broker import RequestHead, ScriptedBroker

T = TypeVar("T")

ANSWERS_UNTIL_IT_KNOWS = 2
VERSION_MAX = 12  # From 13 on topics are fetched by id.


class NewLeader:
    def __init__(self, topic: str, records: bytes, end_offset: int) -> None:
        self._topic = topic
        self._records = records
        self._end_offset = end_offset
        self._answers: Counter[int] = Counter()
        self._port = 0

    def answer(self, use: Callable[[str], T]) -> T:
        """What `use` makes of the broker at this address."""

        async def serve() -> T:
            broker = await ScriptedBroker(self._answer).start()
            self._port = broker.port
            return await asyncio.to_thread(use, f"127.0.0.1:{broker.port}")

        return asyncio.run(serve())

    def _answer(self, head: RequestHead, request: Any) -> Message | None:
        match head.api_key:
            case ApiKey.API_VERSIONS:
                return self._abilities()
            case ApiKey.METADATA:
                return self._metadata()
            case ApiKey.CREATE_TOPICS:
                return api.CreateTopicsResponse(
                    topics=[
                        api.CreateTopicsResponse.CreatableTopicResult(
                            name=self._topic, error_code=ErrorCode.TOPIC_ALREADY_EXISTS
                        )
                    ]
                )
            case ApiKey.LIST_OFFSETS:
                return self._offset(request.topics[0].partitions[0].timestamp)
            case ApiKey.FETCH:
                return self._fetched(request.topics[0].partitions[0].fetch_offset)
        return None

    def _knows(self, key: ApiKey) -> bool:
        self._answers[key] += 1
        return self._answers[key] > ANSWERS_UNTIL_IT_KNOWS

    def _abilities(self) -> api.ApiVersionsResponse:
        kind = api.ApiVersionsResponse
        known = self._knows(ApiKey.API_VERSIONS)
        level = kind.FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2)
        return kind(
            # All of them, though few are served: clients conclude from some what others can do.
            api_keys=[
                kind.ApiVersion(api_key=key, min_version=lowest, max_version=min(highest, VERSION_MAX))
                for key, (lowest, highest) in ((key, API_INFO[key].versions) for key in ApiKey)
                if lowest <= VERSION_MAX
            ],
            finalized_features_epoch=1 if known else -1,
            finalized_features=[level] if known else [],
        )

    def _metadata(self) -> api.MetadataResponse:
        kind = api.MetadataResponse
        partition = kind.MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=5)
        return kind(
            brokers=[kind.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self._port)],
            topics=[kind.MetadataResponseTopic(name=self._topic, partitions=[partition])],
        )

    def _offset(self, timestamp: int) -> api.ListOffsetsResponse:
        kind = api.ListOffsetsResponse
        if timestamp == EARLIEST:
            found = kind.ListOffsetsPartitionResponse(offset=0)
        elif self._knows(ApiKey.LIST_OFFSETS):
            found = kind.ListOffsetsPartitionResponse(offset=self._end_offset)
        else:
            found = kind.ListOffsetsPartitionResponse(error_code=ErrorCode.OFFSET_NOT_AVAILABLE)
        return kind(topics=[kind.ListOffsetsTopicResponse(name=self._topic, partitions=[found])])

    def _fetched(self, offset: int) -> api.FetchResponse:
        kind = api.FetchResponse
        end = self._end_offset if self._knows(ApiKey.FETCH) else 0
        records = self._records if offset < end else b""
        data = kind.PartitionData(high_watermark=end, last_stable_offset=end, records=records)
        return kind(responses=[kind.FetchableTopicResponse(topic=self._topic, partitions=[data])])
