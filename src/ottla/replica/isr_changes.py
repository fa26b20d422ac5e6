"""Proposals for the ISR on their way to the controller: many partitions in one AlterPartition, one request at a time.

A proposal is repeated until the controller has answered it: its partition epoch makes a repetition harmless. What the
answer means is the partition's to say (partition.py); the truth is the image. A proposal that neither an answer nor the
image has settled is sent again with the next look at who lags.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NodeId, TopicId
from ottla.metadata.controller.partition_changes import RecoveryState
from ottla.replica.partition import IsrProposal, Partition
from ottla.wire import api

logger = logging.getLogger(__name__)

ALTER_PARTITION_VERSION: Final = 3
RETRY_SECONDS: Final = 0.05  # The first rest after a failure; it doubles up to the longest.
RETRY_SECONDS_MAX: Final = 1.0
PARTITIONS_PER_REQUEST_MAX: Final = 5000
PARTITIONS_PER_TURN: Final = 500  # Looked at for lagging replicas; then the loop gets its turn.

AskController = Callable[[api.AlterPartitionRequest], Awaitable[api.AlterPartitionResponse]]

# Another controller will say something else.
_TRY_AGAIN: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT)


class IsrChanges:
    """`ask_controller`: sends AlterPartition v3 to the active controller; raises `ApiError` where no answer comes.

    `broker_epoch`: ours, as registered. `partitions`: all of this broker, for the look at who lags, which comes every
    half of `lag_seconds` (`replica.lag.time.max.ms`) from `start` on.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        ask_controller: AskController,
        partitions: Iterable[Partition],
        lag_seconds: float,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._ask_controller = ask_controller
        self._partitions = partitions
        self._lag_seconds = lag_seconds
        self._unsent: dict[Partition, None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._tasks = OwnedTasks()

    def start(self) -> None:
        self._looking = self._tasks.spawn(self._look_regularly(), name="look for lagging replicas")

    async def close(self) -> None:
        """Nothing is proposed after it."""
        self._unsent.clear()
        for task in (self._looking, self._sending):
            if task is not None:
                task.cancel()
        await self._tasks.settle()

    # -- who lags ----------------------------------------------------------------------------------------------------

    async def _look_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._lag_seconds / 2)
            await self.look_for_lagging()

    async def look_for_lagging(self) -> None:
        shrinking: list[Partition] = []
        for number, partition in enumerate(list(self._partitions)):
            if partition.maybe_shrink_isr():
                shrinking.append(partition)
            elif partition.proposal is not None:
                self.propose(partition)
            else:
                partition.maybe_expand_isr()  # The controller may take in whom it did not want before.
            if number % PARTITIONS_PER_TURN == PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)
        if shrinking:
            first = shrinking[0]
            logger.info("replicas lag: %d ISRs shrink, that of %s from %s",
                        len(shrinking), first.topic_partition, first.isr)  # fmt: skip

    # -- proposing ---------------------------------------------------------------------------------------------------

    def propose(self, partition: Partition) -> None:
        """`partition.proposal` is to be sent."""
        self._unsent[partition] = None
        if self._sending is None:
            self._sending = self._tasks.spawn(self._send_all(), name="propose ISRs")

    async def _send_all(self) -> None:
        rest_seconds = RETRY_SECONDS
        try:
            while proposals := self._take_unsent():
                try:
                    response = await self._ask_controller(self._request(proposals))
                    self._require_answer(response)
                except ApiError as error:
                    logger.info("ISR changes are not answered: %s", error)
                    self._send_again(proposals)
                    await asyncio.sleep(rest_seconds)
                    rest_seconds = min(rest_seconds * 2, RETRY_SECONDS_MAX)
                    continue
                rest_seconds = RETRY_SECONDS
                if self._on_answered(proposals, response):
                    await asyncio.sleep(rest_seconds)
        finally:
            self._sending = None

    def _take_unsent(self) -> dict[Partition, IsrProposal]:
        taken: dict[Partition, IsrProposal] = {}
        for partition in list(self._unsent)[:PARTITIONS_PER_REQUEST_MAX]:
            del self._unsent[partition]
            if partition.proposal is not None:
                taken[partition] = partition.proposal
        # All of them may have been settled meanwhile.
        return self._take_unsent() if self._unsent and not taken else taken

    def _send_again(self, proposals: Iterable[Partition]) -> None:
        for partition in proposals:
            self._unsent[partition] = None

    def _request(self, proposals: dict[Partition, IsrProposal]) -> api.AlterPartitionRequest:
        topics: dict[TopicId, list[api.AlterPartitionRequest.PartitionData]] = {}
        for partition, proposal in proposals.items():
            topics.setdefault(partition.topic_id, []).append(
                api.AlterPartitionRequest.PartitionData(
                    partition_index=partition.topic_partition.partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        api.AlterPartitionRequest.BrokerState(broker_id=broker_id, broker_epoch=broker_epoch)
                        for broker_id, broker_epoch in proposal.isr
                    ],
                    leader_recovery_state=RecoveryState.RECOVERED,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return api.AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            topics=[
                api.AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )

    @staticmethod
    def _require_answer(response: api.AlterPartitionResponse) -> None:
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            raise ApiError(code, f"the controller answered {code.name}")

    def _on_answered(self, proposals: dict[Partition, IsrProposal], response: api.AlterPartitionResponse) -> bool:
        """Whether some must be sent again."""
        answers = {
            (topic.topic_id, answer.partition_index): answer for topic in response.topics for answer in topic.partitions
        }
        repeated = []
        for partition, proposal in proposals.items():
            answer = answers.get((partition.topic_id, partition.topic_partition.partition))
            code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else ErrorCode(answer.error_code)
            if code in _TRY_AGAIN and partition.proposal is proposal:
                repeated.append(partition)
            elif answer is not None:
                if code is not ErrorCode.NONE:
                    logger.info("%s: the ISR %s was answered %s", partition.topic_partition, proposal.isr, code.name)
                partition.on_proposal_answered(proposal, code, answer.partition_epoch)
        self._send_again(repeated)
        return bool(repeated)
