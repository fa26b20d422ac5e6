"""`Admin`'s calls about transactions: ListTransactions, DescribeTransactions, DescribeProducers, WriteTxnMarkers.

librdkafka has none of them, so brokers are asked directly: every broker for the list, a transactional id's
coordinator for its description, a partition's leader for its producers and for a marker.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.types import NodeId, TopicPartition
from ottla.client.admin_base import AdminBase
from ottla.client.errors import ClientError, ConfigError, coded_error
from ottla.client.raw.address import Address
from ottla.client.raw.cluster import Cluster, CoordinatorKind
from ottla.client.records import Partitions, partition_list
from ottla.client.transaction_states import (
    ONGOING,
    STATES,
    TWO_PHASE_TIMEOUT_MS,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from ottla.wire import api
from ottla.wire.apis import ApiKey

NO_FILTER: Final = -1
NO_TRANSACTION: Final = -1


class TransactionAdmin(AdminBase):
    def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), running_longer_than_ms: int = NO_FILTER
    ) -> list[TransactionListing]:
        """Of the whole cluster, by transactional id; filters are the broker's, `states` in Kafka's words."""
        request = api.ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=running_longer_than_ms,
        )
        found: list[TransactionListing] = []
        with self._brokers() as cluster:
            for node, address in sorted(cluster.brokers().items()):
                answer = cluster.ask(ApiKey.LIST_TRANSACTIONS, request, api.ListTransactionsResponse, at=address)
                if answer.error_code != ErrorCode.NONE:
                    raise coded_error(answer.error_code, f"listing transactions of broker {node}")
                if answer.unknown_state_filters:
                    unknown = ", ".join(answer.unknown_state_filters)
                    raise ConfigError(f"a transaction has no state {unknown}; there are {', '.join(STATES)}")
                found += transaction_listings(cluster, node, address, answer.transaction_states)
        return sorted(found, key=lambda listing: listing.transactional_id)

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        with self._brokers() as cluster:
            coordinator = cluster.coordinator(CoordinatorKind.TRANSACTION, transactional_id)
            [found] = described_transactions(cluster, coordinator, [transactional_id])
        if found.error_code != ErrorCode.NONE:
            raise coded_error(found.error_code, f"describing transaction {transactional_id}")
        return transaction_description(found, coordinator)

    def describe_producers(self, partitions: Partitions) -> list[ProducerState]:
        """Of each partition, the producers that its leader remembers."""
        asked = partition_list(partitions)
        with self._brokers() as cluster:
            leaders = leaders_of(cluster, asked)
            return [state for each in asked for state in partition_producers(cluster, each, leaders[each])]

    def abort_transaction(self, partition: TopicPartition, start_offset: int) -> ProducerState:
        """Ends a hanging transaction in one partition: the one that began at `start_offset` there; returns its producer.

        A marker is written past the coordinator, as Kafka's own tool does it. Only for transactions that their
        coordinator has forgotten (`ottla txn find-hanging`): one that is alive ends itself, or is fenced.
        """
        with self._brokers() as cluster:
            leader = leaders_of(cluster, [partition])[partition]
            for state in partition_producers(cluster, partition, leader):
                if state.transaction_start_offset == start_offset:
                    write_abort_marker(cluster, state, leader)
                    return state
        raise ClientError("NO_SUCH_TRANSACTION", f"no transaction in {partition} is open since offset {start_offset}")


def transaction_listings(
    cluster: Cluster, node: NodeId, address: Address, listed: Sequence[api.ListTransactionsResponse.TransactionState]
) -> list[TransactionListing]:
    """A list says nothing of time: those that are open are described too."""
    open_ids = [each.transactional_id for each in listed if each.transaction_state == ONGOING]
    described = {each.transactional_id: each for each in described_transactions(cluster, address, open_ids)}
    listings = []
    for each in listed:
        found = described.get(each.transactional_id, api.DescribeTransactionsResponse.TransactionState())
        listings.append(
            TransactionListing(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                state=each.transaction_state,
                coordinator=node,
                started_ms=found.transaction_start_time_ms if found.transaction_start_time_ms > 0 else None,
                is_two_phase=found.transaction_timeout_ms == TWO_PHASE_TIMEOUT_MS,
            )
        )
    return listings


def described_transactions(
    cluster: Cluster, coordinator: Address, transactional_ids: Sequence[str]
) -> list[api.DescribeTransactionsResponse.TransactionState]:
    if not transactional_ids:
        return []
    request = api.DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    answer = cluster.ask(ApiKey.DESCRIBE_TRANSACTIONS, request, api.DescribeTransactionsResponse, at=coordinator)
    return answer.transaction_states


def transaction_description(
    found: api.DescribeTransactionsResponse.TransactionState, coordinator: Address
) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=found.transactional_id,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        state=found.transaction_state,
        timeout_ms=found.transaction_timeout_ms,
        started_ms=None if found.transaction_start_time_ms < 0 else found.transaction_start_time_ms,
        coordinator=str(coordinator),
        partitions=tuple(
            sorted(TopicPartition(topic.topic, partition) for topic in found.topics for partition in topic.partitions)
        ),
    )


def leaders_of(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Address]:
    wanted = list(partitions)
    known = cluster.leaders(sorted({each.topic for each in wanted}))
    leaders = {}
    for partition in wanted:
        if partition not in known:
            raise coded_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"looking for {partition}", "no such partition")
        leader = known[partition]
        if leader is None:
            raise coded_error(ErrorCode.LEADER_NOT_AVAILABLE, f"looking for {partition}", "it has no leader now")
        leaders[partition] = leader
    return leaders


def partition_producers(cluster: Cluster, partition: TopicPartition, leader: Address) -> list[ProducerState]:
    topic = api.DescribeProducersRequest.TopicRequest(name=partition.topic, partition_indexes=[partition.partition])
    request = api.DescribeProducersRequest(topics=[topic])
    answer = cluster.ask(ApiKey.DESCRIBE_PRODUCERS, request, api.DescribeProducersResponse, at=leader)
    [found] = answer.topics[0].partitions
    if found.error_code != ErrorCode.NONE:
        raise coded_error(found.error_code, f"describing the producers of {partition}", found.error_message)
    return [
        ProducerState(
            partition=partition,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            coordinator_epoch=each.coordinator_epoch,
            last_sequence=each.last_sequence,
            last_timestamp_ms=each.last_timestamp,
            transaction_start_offset=None
            if each.current_txn_start_offset == NO_TRANSACTION
            else each.current_txn_start_offset,
        )
        for each in sorted(found.active_producers, key=lambda producer: producer.producer_id)
    ]


def write_abort_marker(cluster: Cluster, state: ProducerState, leader: Address) -> None:
    Request = api.WriteTxnMarkersRequest
    marker = Request.WritableTxnMarker(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        transaction_result=False,
        topics=[
            Request.WritableTxnMarkerTopic(name=state.partition.topic, partition_indexes=[state.partition.partition])
        ],
        coordinator_epoch=max(0, state.coordinator_epoch),
    )
    answer = cluster.ask(ApiKey.WRITE_TXN_MARKERS, Request(markers=[marker]), api.WriteTxnMarkersResponse, at=leader)
    [result] = answer.markers[0].topics[0].partitions
    if result.error_code != ErrorCode.NONE:
        raise coded_error(result.error_code, f"aborting the transaction in {state.partition}")
