"""An active controller in virtual time, with brokers that are alive, silent or gone as a test says. No sockets, no disk."""

import asyncio

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.active_controller import ActiveController
from ottla.broker.callers import Callers
from ottla.broker.peers import PeerLost
from ottla.broker.request import Peer, RequestContext
from ottla.metadata.configs import parse_broker_settings
from ottla.metadata.controller.decision import Decision
from ottla.metadata.runtime import ControllerRuntime
from ottla.wire import api
from ottla.wire.apis import ApiKey
from sim.world import World
from tests.unit.metadata.cluster import FakeMetadataLog, image_of, settings, shown

CLUSTER_ID = "EjRWeBI0VngSNFZ4EjRWeA"


class FakePeers:
    """What a node would learn of the others. Every broker answers until it is made silent or killed."""

    def __init__(self):
        self.gone = set()
        self.silent = set()
        self.log_ends = {}
        """(broker, topic, partition) -> (leader epoch, log end offset)."""
        self.asked = []
        self._watches = []

    def watch(self, node_id, on_lost):
        watch = FakeWatch(node_id, on_lost)
        self._watches.append(watch)
        if node_id in self.gone:
            asyncio.get_running_loop().call_soon(watch.lose)
        return watch

    @property
    def watched(self):
        return sorted(watch.node_id for watch in self._watches if watch.is_open)

    def cut(self, node_id):
        """The connections to it end; the process may be there still."""
        for watch in [one for one in self._watches if one.node_id == node_id]:
            watch.lose()

    def kill(self, node_id):
        self.gone.add(node_id)
        self.cut(node_id)

    async def ask(self, node_id, api_key, api_version, request, *, timeout_seconds=None):
        self.asked.append((node_id, api_key))
        if node_id in self.gone:
            raise PeerLost(f"{node_id} refuses")
        if node_id in self.silent:
            await asyncio.sleep(timeout_seconds)
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"{node_id} does not answer")
        if api_key is ApiKey.API_VERSIONS:
            return api.ApiVersionsResponse()
        assert api_key is ApiKey.LIST_OFFSETS
        assert request.replica_id == -2
        return api.ListOffsetsResponse(
            topics=[
                api.ListOffsetsResponse.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[self._log_end(node_id, topic.name, one.partition_index) for one in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _log_end(self, node_id, topic, number):
        answer = api.ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=number)
        end = self.log_ends.get((node_id, topic, number))
        if end is None:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            answer.leader_epoch, answer.offset = end
        return answer


class FakeWatch:
    def __init__(self, node_id, on_lost):
        self.node_id = node_id
        self._on_lost = on_lost
        self.is_open = True

    def close(self):
        self.is_open = False

    def lose(self):
        if self.is_open:
            self.is_open = False
            self._on_lost()


class FakeLeadership:
    def __init__(self):
        self.is_followed = True
        self.silent_leader = None


class ControlledCluster:
    """Node 1 is the active controller; the brokers are those of the records, with epoch 7."""

    def __init__(self, world, *records, brokers=3, **static):
        self.world = world
        self.config = parse_broker_settings({name.replace("_", "."): value for name, value in static.items()})
        image = image_of(*records, brokers=brokers)
        self.log = FakeMetadataLog(image.offset + 1)
        self.runtime = ControllerRuntime(self.log, image)
        self.runtime.resume()
        self.peers = FakePeers()
        self.leadership = FakeLeadership()
        self.callers = Callers(self.image)
        self.controller = self.new_controller()

    def new_controller(self):
        return ActiveController(
            runtime=self.runtime,
            config=self.config,
            settings=settings(static_broker_configs=self.config.texts),
            cluster_id=CLUSTER_ID,
            clock=self.world.clock,
            peers=self.peers,
            leadership=self.leadership,
            callers=self.callers,
        )

    @property
    def image(self):
        return self.runtime.image

    def shown(self, *which):
        return shown(self.image, *which)

    @property
    def fenced(self):
        return [broker.id for broker in self.image.brokers.values() if broker.fenced]

    async def heartbeat(self, broker_id, **wants):
        epoch = self.image.brokers[broker_id].epoch
        request = api.BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=max(self.image.offset, epoch), **wants
        )
        return await self.controller.heartbeat(request)

    def call_from(self, broker_id, api_key=ApiKey.BROKER_HEARTBEAT):
        """It has a connection of its own to the controller, until what is returned is cut."""
        peer = Peer(host=f"host-{broker_id}", port=1, listener="PLAINTEXT")
        self.callers.on_call(broker_id, RequestContext(api_key, 1, 1, None, peer))
        return peer.lifeline

    async def record(self, *records):
        await self.runtime.submit(lambda image: Decision(records=list(records), reply=None))

    async def pass_seconds(self, seconds, *alive):
        """The brokers `alive` send heartbeats meanwhile."""
        for _ in range(round(seconds * 10)):
            await asyncio.sleep(0.1)
            for broker_id in alive:
                await self.heartbeat(broker_id)


def play(scene, *records, **options):
    """Runs `scene` with a cluster in virtual time."""
    world = World(1)

    async def main():
        cluster = ControlledCluster(world, *records, **options)
        await scene(cluster)
        await cluster.controller.close()

    world.run(main())
