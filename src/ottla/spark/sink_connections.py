"""A worker's connections to a cluster. Workers are used again for further tasks, and so are these."""

from dataclasses import dataclass, field

from ottla.client.raw.address import Address
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.connection import Connection
from ottla.client.raw.producing import BatchSender
from ottla.client.raw.topic_leaders import TopicLeaders
from ottla.client.raw.transactions import ProducerIdentity, Transactions
from ottla.spark.sink_options import SinkOptions

_connections: dict[SinkOptions, "SinkConnections"] = {}


@dataclass(slots=True, kw_only=True)
class SinkConnections:
    options: SinkOptions
    cluster: Cluster
    transactions: Transactions
    to_leaders: dict[Address, Connection] = field(default_factory=dict)

    def leaders(self) -> TopicLeaders:
        return TopicLeaders(self.cluster, timeout_s=self.options.max_block_ms / 1000)

    def sender(
        self, leaders: TopicLeaders, identity: ProducerIdentity, transactional_id: str | None = None
    ) -> BatchSender:
        options = self.options
        return BatchSender(
            leaders,
            self.to_leaders,
            identity,
            transactional_id=transactional_id,
            client_id=options.client_id,
            request_timeout_s=options.request_timeout_ms / 1000,
            delivery_timeout_s=options.delivery_timeout_ms / 1000,
            security=options.security,
        )


def connections_of(options: SinkOptions) -> SinkConnections:
    if options not in _connections:
        cluster = Cluster(
            options.bootstrap_servers,
            client_id=options.client_id,
            timeout_s=options.request_timeout_ms / 1000,
            security=options.security,
        )
        transactions = Transactions(cluster, timeout_s=options.delivery_timeout_ms / 1000)
        _connections[options] = SinkConnections(options=options, cluster=cluster, transactions=transactions)
    return _connections[options]
