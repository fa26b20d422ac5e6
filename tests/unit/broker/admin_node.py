"""A node as the administrative handlers see it: metadata, settings, a clock. No logs, no sockets."""

import asyncio

from ottla.broker.advertised import AdvertisedAddresses
from ottla.broker.handlers import topics
from ottla.broker.neighbours import Neighbours
from ottla.broker.peers import Nobody
from ottla.broker.request import Peer, RequestContext
from ottla.metadata.configs import parse_broker_settings
from ottla.metadata.runtime import ControllerRuntime
from ottla.wire.apis import API_INFO
from ottla.wire.codec import codec_for
from ottla.wire.frame import SIZE_BYTES, decode_response
from sim.clock import SimulatedClock
from tests.unit.metadata.cluster import FakeMetadataLog, image_of, settings


class AllPresent(Nobody):
    async def ask(self, *_, **__):
        """Whatever it is, somebody has heard it."""


class AdminNode:
    def __init__(self, *records, brokers=1, static=None, **changes):
        self.config = parse_broker_settings(static or {})
        self.settings = settings(static_broker_configs=self.config.texts, **changes)
        image = image_of(*records, brokers=brokers)
        self.log = FakeMetadataLog(image.offset + 1)
        self.runtime = ControllerRuntime(self.log, image)
        self.runtime.resume()
        self.clock = SimulatedClock()
        self.cluster_id = "EjRWeBI0VngSNFZ4EjRWeA"
        self.node_id = self.controller_id = 1
        self.advertised = AdvertisedAddresses()
        self.neighbours = Neighbours(self.node_id, image, AllPresent(), self.clock)

    @property
    def image(self):
        return self.runtime.image

    async def submit(self, decide):
        return await self.runtime.submit(decide)

    async def change_metadata(self, api_key, api_version, request):
        context = RequestContext(api_key, api_version, 1, "test", Peer(host="itself", port=1, listener="PLAINTEXT"))
        return await topics.APIS[api_key].handle(self, context, request)


def ask(node, apis, key, request, *, version=None, listener="PLAINTEXT"):
    """The answer as a client of that version reads it: request and response go through their codecs."""
    served = apis[key]
    version = served.versions[1] if version is None else version
    assert served.versions[0] <= version <= served.versions[1]
    peer = Peer(host="client", port=1, listener=listener)
    context = RequestContext(key, version, 1, "test", peer)
    request = _as_sent(API_INFO[key].request, version, request)
    response = asyncio.run(served.handle(node, context, request))
    if isinstance(response, list):  # Encoded already.
        return decode_response(key, version, memoryview(b"".join(response))[SIZE_BYTES:])[1]
    return _as_sent(API_INFO[key].response, version, response)


def _as_sent(message_class, version, message):
    codec = codec_for(message_class, version)
    data = codec.encode(message)
    decoded, end = codec.decode(memoryview(data), 0)
    assert end == len(data)
    return decoded
