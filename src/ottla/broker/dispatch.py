"""From a request frame to its handler and back to bytes: one table says what is advertised and who answers.

`ApiVersions` is answered from the same table, so that nothing is advertised without a handler. A version outside the table
closes the connection, as in Kafka; only ApiVersions itself answers it, with version 0 and UNSUPPORTED_VERSION.
"""

import asyncio
import logging
from typing import Any, Final

from ottla.base.errors import ApiError, ErrorCode, NotServed, ProtocolError
from ottla.broker.handlers import (
    acls,
    api_versions,
    brokers,
    cluster,
    configs,
    coordinator,
    features,
    fetch,
    group_admin,
    group_offsets,
    groups,
    log_dirs,
    metadata,
    offsets,
    produce,
    producers,
    quorum,
    reassignments,
    scram,
    topics,
    transaction_listing,
    transaction_markers,
    transaction_offsets,
    transactions,
)
from ottla.broker.node import Node
from ottla.broker.peers import is_of_peer
from ottla.broker.request import Api, Parts, Peer, RequestContext
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.frame import decode_request_header, encode_response, request_codec
from ottla.wire.message import Message

logger = logging.getLogger(__name__)

CUT_OFF_SECONDS: Final = 0.1  # Clients come back at once, some a hundred times a second.

APIS: Final[dict[int, Api]] = {
    **produce.APIS,
    **fetch.APIS,
    **offsets.APIS,
    **metadata.APIS,
    **topics.APIS,
    **configs.APIS,
    **cluster.APIS,
    **features.APIS,
    **scram.APIS,
    **acls.APIS,
    **producers.APIS,
    **log_dirs.APIS,
    **quorum.APIS,
    **reassignments.APIS,
    **brokers.APIS,
    **coordinator.APIS,
    **groups.APIS,
    **group_offsets.APIS,
    **group_admin.APIS,
    **transactions.APIS,
    **transaction_markers.APIS,
    **transaction_offsets.APIS,
    **transaction_listing.APIS,
    **api_versions.APIS,
}


class Dispatcher:
    """The `Service` behind every connection of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def begin(self, frame: memoryview, peer: Peer) -> RequestContext:
        api_key, version, correlation_id, client_id, body_position = decode_request_header(frame)
        api = APIS.get(api_key)
        if api is None:
            raise ProtocolError(f"api key {api_key} is not served (docs/GAPS.md)")
        low, high = api.versions
        if not low <= version <= high and api_key != ApiKey.API_VERSIONS:
            raise ProtocolError(f"{API_INFO[api_key].name} v{version} is not served, only v{low} to v{high}")
        return RequestContext(api_key, version, correlation_id, client_id, peer, body_position, api.holds_frame)

    def answer_at_once(self, context: RequestContext, frame: memoryview) -> Parts | None:
        """None: it is for `answer`."""
        at_once, node = APIS[context.api_key].at_once, self._node
        return at_once(node, context, frame) if at_once is not None and node.is_ready and not node.is_cut_off else None

    async def answer(self, context: RequestContext, frame: memoryview) -> Parts | None:
        api = APIS[context.api_key]
        version = context.api_version
        if context.api_key == ApiKey.API_VERSIONS and not api.versions[0] <= version <= api.versions[1]:
            unsupported = api_versions.describe(self._node, APIS, 0)
            unsupported.error_code = ErrorCode.UNSUPPORTED_VERSION
            return [encode_response(context.api_key, 0, context.correlation_id, unsupported)]
        if api.decode is not None:
            request = api.decode(frame, context.body_position, version)
        else:
            # Bytes behind the message are let pass, as Kafka does: librdkafka sends some behind Metadata.
            request, _ = request_codec(context.api_key, version).decode(frame, context.body_position)
        node = self._node
        if not node.is_ready and not (api.is_internal or api.is_early or quorum.is_metadata_fetch(request)):
            await node.wait_ready()
        if node.is_cut_off and not (api.is_internal or is_of_peer(context)):
            await asyncio.sleep(CUT_OFF_SECONDS)
            raise NotServed("this broker is cut off from the cluster: ask another")
        if api.is_for_controller and not node.is_active_controller and not is_of_peer(context):
            response = await self._pass_on(api, context, request)
        else:
            response = await api.handle(node, context, request)
        if response is None or type(response) is list:
            return response
        return [encode_response(context.api_key, version, context.correlation_id, response)]

    def refused(self, context: RequestContext, parts: Parts, error: ApiError) -> Parts:
        """Of answers that waited for a commit which failed."""
        refuse = APIS[context.api_key].refuse
        if refuse is None:
            raise error
        return refuse(parts, context.api_version, error.code)

    async def _pass_on(self, api: Api, context: RequestContext, request: Message) -> Any:
        try:
            return await self._node.change_metadata(ApiKey(context.api_key), context.api_version, request)
        except ApiError:
            # Our own handler knows how to say it, for each of the topics: we are not the controller.
            return await api.handle(self._node, context, request)
