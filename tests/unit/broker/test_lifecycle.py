"""A broker's life as a conversation with a controller, in virtual time; requests and answers go through their codecs."""

import asyncio
from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.handlers import brokers
from ottla.broker.lifecycle import BrokerLifecycle
from ottla.broker.registration import NodeIdentity, previous_broker_epoch
from ottla.broker.request import Peer, RequestContext
from ottla.metadata.controller.heartbeats import BrokerState
from ottla.metadata.image_parts import Endpoint
from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.codec import codec_for
from tests.unit.broker.controlled_cluster import CLUSTER_ID, play
from tests.unit.metadata.cluster import broker_record, orders, topic_records

PEER = Peer(host="broker", port=1, listener="PLAINTEXT")


def over_the_wire(message_class, version, message):
    codec = codec_for(message_class, version)
    decoded, _ = codec.decode(memoryview(codec.encode(message)), 0)
    return decoded


class Broker:
    """One broker's lifecycle, connected to the cluster's controller as a node would be."""

    def __init__(self, cluster, broker_id, **identity):
        self._cluster = cluster
        self.asked = []
        self.is_answered = True
        self.offline = []
        self.unconfirmed_seconds = 0.0
        facts = {
            "node_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": UUID(int=700 + broker_id),
            "endpoints": [Endpoint("PLAINTEXT", f"host-{broker_id}", 9092, 0)],
            "rack": "a",
            "directory_ids": [UUID(int=800 + broker_id)],
        }
        self.lifecycle = BrokerLifecycle(
            identity=NodeIdentity(**{**facts, **identity}),
            config=cluster.config,
            ask_controller=self._ask,
            applied_offset=lambda: cluster.image.offset,
            offline_directories=lambda: self.offline,
            unconfirmed_seconds=lambda: self.unconfirmed_seconds,
        )
        cluster.runtime.listen(self)

    def on_metadata(self, delta, image):
        self.lifecycle.on_applied(delta, image)

    async def _ask(self, api_key, version, request):
        self.asked.append((asyncio.get_running_loop().time(), api_key))
        if not self.is_answered:
            await asyncio.sleep(1000)
        request = over_the_wire(API_INFO[api_key].request, version, request)
        context = RequestContext(api_key, version, 1, None, PEER)
        node = NodeOfController(self._cluster)
        return over_the_wire(
            API_INFO[api_key].response, version, await brokers.APIS[api_key].handle(node, context, request)
        )

    async def become_active(self):
        await self.lifecycle.register()
        self.lifecycle.start()
        await self.lifecycle.wait_unfenced()

    def times(self, api_key):
        return [round(time, 3) for time, key in self.asked if key is api_key]


class NodeOfController:
    def __init__(self, cluster):
        self.active_controller = cluster.controller
        self.callers = cluster.callers


def now():
    return asyncio.get_running_loop().time()


# ---- registration ----


def test_a_broker_alone_serves_without_waiting_for_anything():
    async def scene(cluster):
        cluster.controller.take_over()
        broker = Broker(cluster, 1)
        await broker.become_active()
        assert now() < 0.01
        registered = cluster.image.brokers[1]
        assert (registered.epoch, registered.fenced, registered.rack) == (broker.lifecycle.broker_epoch, False, "a")
        assert registered.endpoint("PLAINTEXT") == Endpoint("PLAINTEXT", "host-1", 9092, 0)
        assert list(cluster.image.controllers) == [1]
        await broker.lifecycle.close()

    play(scene, brokers=0)


def test_a_controller_alone_registers_as_one_and_as_no_broker():
    async def scene(cluster):
        cluster.controller.take_over()
        node = Broker(cluster, 4, is_broker=False)
        await node.lifecycle.register()
        assert list(cluster.image.controllers) == [4]
        assert not cluster.image.brokers
        assert not await node.lifecycle.controlled_shutdown(5), "it has nothing to hand over"

    play(scene, brokers=0)


def test_a_broker_registers_once_there_is_a_controller():
    async def scene(cluster):
        broker = Broker(cluster, 1, is_controller=False)
        registering = asyncio.ensure_future(broker.lifecycle.register())
        await asyncio.sleep(3)
        assert not registering.done()
        cluster.controller.take_over()
        await registering
        assert now() < 3.6
        assert len(broker.asked) < 12

    play(scene, brokers=0)


def test_a_broker_waits_until_the_one_before_it_is_known_to_be_gone():
    async def scene(cluster):
        cluster.controller.take_over()
        await cluster.heartbeat(2)
        broker = Broker(cluster, 2)
        registering = asyncio.ensure_future(broker.lifecycle.register())
        await cluster.pass_seconds(2)
        assert not registering.done()
        cluster.peers.cut(2)
        await asyncio.sleep(0.6)
        assert registering.done()

    play(scene)


def test_what_no_repetition_would_mend_is_told():
    async def scene(cluster):
        cluster.controller.take_over()
        with pytest.raises(ApiError) as refused:
            await Broker(cluster, 1, cluster_id="theirs").lifecycle.register()
        assert refused.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID

    play(scene)


def test_a_broker_that_was_unregistered_registers_again():
    async def scene(cluster):
        cluster.controller.take_over()
        broker = Broker(cluster, 5)
        await broker.become_active()
        epoch = broker.lifecycle.broker_epoch
        await cluster.controller.unregister_broker(api.UnregisterBrokerRequest(broker_id=5))
        await asyncio.sleep(3)
        assert broker.lifecycle.state is BrokerState.ACTIVE
        assert broker.lifecycle.broker_epoch == cluster.image.brokers[5].epoch > epoch
        await broker.lifecycle.close()

    play(scene)


class Directory:
    def __init__(self, epoch):
        self.last_broker_epoch, self.was_clean_shutdown = epoch, epoch is not None


@pytest.mark.parametrize(("epochs", "expected"), [([5], 5), ([5, 5], 5), ([5, 6], -1), ([5, None], -1), ([-1], -1)])
def test_only_a_shutdown_that_was_clean_everywhere_has_an_epoch(epochs, expected):
    assert previous_broker_epoch([Directory(epoch) for epoch in epochs]) == expected


# ---- heartbeats ----


def test_an_active_broker_sends_a_heartbeat_per_interval():
    async def scene(cluster):
        cluster.controller.take_over()
        broker = Broker(cluster, 1)
        await broker.become_active()
        await asyncio.sleep(10.5)
        assert broker.times(ApiKey.BROKER_HEARTBEAT) == [0, 2, 4, 6, 8, 10]
        await broker.lifecycle.close()

    play(scene, brokers=0)


def test_a_heartbeat_that_nobody_answers_is_given_up_before_the_session_ends():
    async def scene(cluster):
        cluster.controller.take_over()
        broker = Broker(cluster, 1)
        await broker.become_active()
        await asyncio.sleep(1)
        broker.is_answered = False
        await asyncio.sleep(6)
        broker.is_answered = True
        await asyncio.sleep(4)
        assert broker.lifecycle.state is BrokerState.ACTIVE
        assert not cluster.fenced
        await broker.lifecycle.close()

    play(scene, brokers=0)


def test_a_broker_that_was_fenced_meanwhile_is_let_serve_again():
    async def scene(cluster):
        cluster.controller.take_over()
        broker = Broker(cluster, 5)
        await broker.become_active()
        epoch = broker.lifecycle.broker_epoch
        broker.is_answered = False
        await cluster.pass_seconds(12, 1, 2, 3)
        assert cluster.fenced == [5]
        broker.is_answered = True
        await cluster.pass_seconds(3, 1, 2, 3)
        assert cluster.fenced == []
        assert (broker.lifecycle.state, broker.lifecycle.broker_epoch) == (BrokerState.ACTIVE, epoch)
        await broker.lifecycle.close()

    play(scene)


@pytest.mark.parametrize(("unconfirmed_seconds", "served_seconds"), [(0.0, 9), (1.5, 7.5)])
def test_a_lease_counts_from_when_the_controller_was_one_beyond_doubt(unconfirmed_seconds, served_seconds):
    async def scene(cluster):
        cluster.controller.take_over()
        broker = Broker(cluster, 1)
        broker.unconfirmed_seconds = unconfirmed_seconds
        await broker.become_active()
        broker.is_answered = False
        await asyncio.sleep(served_seconds - 0.1)
        assert not broker.lifecycle.is_unheard
        await asyncio.sleep(0.2)
        assert broker.lifecycle.is_unheard
        await broker.lifecycle.close()

    play(scene, brokers=0)


def test_when_a_lease_ends_that_is_said():
    """By then a heartbeat is under way that would be waited for longer."""

    async def scene(cluster):
        cluster.controller.take_over()
        broker = Broker(cluster, 1)
        said = []
        broker.lifecycle.on_lease_over = lambda: said.append(broker.lifecycle.is_unheard)
        await broker.become_active()
        broker.is_answered = False
        await asyncio.sleep(8.9)
        assert not said
        await asyncio.sleep(0.2)
        assert said
        assert all(said)
        await broker.lifecycle.close()

    play(scene, brokers=0)


def test_a_broker_that_learns_that_it_is_fenced_serves_nobody():
    async def scene(cluster):
        cluster.controller.take_over()
        broker = Broker(cluster, 5)
        assert broker.lifecycle.is_unheard
        await broker.become_active()
        assert not broker.lifecycle.is_unheard
        await broker.lifecycle.close()

    play(scene)


def test_a_failed_directory_is_told_with_the_next_heartbeat():
    async def scene(cluster):
        cluster.controller.take_over()
        ids = [UUID(int=1), UUID(int=2)]
        broker = Broker(cluster, 1, directory_ids=ids)
        await broker.become_active()
        broker.offline = ids[:1]
        await asyncio.sleep(2.1)
        assert cluster.image.brokers[1].log_directories == (ids[1],)
        await broker.lifecycle.close()

    play(scene, brokers=0)


# ---- the end ----


def test_a_broker_stops_when_others_lead_and_all_have_heard_of_it():
    async def scene(cluster):
        cluster.controller.take_over()
        members = [Broker(cluster, number, previous_broker_epoch=7) for number in (1, 2, 3)]
        for member in members:
            await member.become_active()
        await asyncio.sleep(1)
        assert cluster.shown() == "1 | 1 | 2 3"
        begun = now()
        assert await members[0].lifecycle.controlled_shutdown(30)
        assert now() - begun < 0.5
        assert members[0].lifecycle.state is BrokerState.STOPPED
        assert cluster.fenced == [1]
        assert cluster.shown() == "2 | 2 | 1 3"
        for member in members[1:]:
            await member.lifecycle.close()

    directories = [UUID(int=800 + number) for number in (1, 2, 3)]
    fenced = [broker_record(number, fenced=True, log_dirs=[UUID(int=800 + number)]) for number in (1, 2, 3)]
    nobody_leads = {"leader": -1, "isr": [], "eligible_leader_replicas": [1, 2, 3]}
    play(scene, *fenced, *orders((1, 2, 3), min_isr=2, directories=directories, **nobody_leads), brokers=0)


def test_a_broker_alone_stops_at_once():
    async def scene(cluster):
        cluster.controller.take_over()
        broker = Broker(cluster, 1)
        await broker.become_active()
        assert await broker.lifecycle.controlled_shutdown(30)
        assert now() < 0.01

    play(scene, *topic_records("orders"), brokers=1)


def test_a_broker_without_a_controller_stops_all_the_same():
    async def scene(cluster):
        cluster.controller.take_over()
        broker = Broker(cluster, 1)
        await broker.become_active()
        cluster.controller.step_down()
        assert not await broker.lifecycle.controlled_shutdown(5)
        assert now() == pytest.approx(5)

    play(scene, brokers=0)


def test_a_broker_that_never_began_has_nothing_to_hand_over():
    async def scene(cluster):
        assert not await Broker(cluster, 1).lifecycle.controlled_shutdown(5)
        assert now() == 0

    play(scene)
