"""Replication of one broker, put together: its followers fetch, its leaders keep their ISRs.

Made and started by the node once it is registered and its partitions are loaded; closed before the logs are.
"""

from collections.abc import Callable

from ottla.base.types import NodeId
from ottla.metadata.configs import BrokerConfig
from ottla.replica.fetcher import Ask, ReplicaFetchers
from ottla.replica.isr_changes import AskController, IsrChanges
from ottla.replica.leader_session import FetchSettings
from ottla.replica.partitions import Partitions


class Replication:
    """`ask(leader_id, request)` sends a Fetch, version `FETCH_VERSION`; `ask_controller(request)` an AlterPartition,
    version `ALTER_PARTITION_VERSION`. Both raise `ApiError` where no answer comes. `broker_epoch`: as registered.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        partitions: Partitions,
        config: BrokerConfig,
        ask: Ask,
        ask_controller: AskController,
    ) -> None:
        self._partitions = partitions
        self._fetchers = ReplicaFetchers(
            node_id=node_id, broker_epoch=broker_epoch, ask=ask, settings=fetch_settings(config)
        )
        self._isr_changes = IsrChanges(
            node_id=node_id,
            broker_epoch=broker_epoch,
            ask_controller=ask_controller,
            partitions=partitions,
            lag_seconds=config.integer("replica.lag.time.max.ms") / 1000,
        )

    def start(self) -> None:
        self._partitions.start_replication(fetchers=self._fetchers, propose=self._isr_changes.propose)
        self._isr_changes.start()

    async def close(self) -> None:
        await self._fetchers.close()
        await self._isr_changes.close()


def fetch_settings(config: BrokerConfig) -> FetchSettings:
    return FetchSettings(
        wait_max_ms=config.integer("replica.fetch.wait.max.ms"),
        min_bytes=config.integer("replica.fetch.min.bytes"),
        partition_bytes_max=config.integer("replica.fetch.max.bytes"),
        response_bytes_max=config.integer("replica.fetch.response.max.bytes"),
        backoff_seconds=config.integer("replica.fetch.backoff.ms") / 1000,
    )
