"""Requests that are not for this quorum, and where its nodes are."""

import asyncio

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.quorum.exchange import APIS, AddressBook
from ottla.raft.messages import BeginEpoch, Fetch, Vote
from ottla.raft.messages import EpochEnd as End
from ottla.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from ottla.raft.wire_requests import request_to_wire
from ottla.wire import api
from tests.unit.broker.quorum.members import CLUSTER_ID, Members, over_the_wire


def answered(message):
    """By a node that leads alone."""
    members = Members()
    answers = []

    async def scene():
        member = await members.found()
        await member.quorum.wait_leader()
        answers.append(await member.quorum.answer(message))

    members.play(scene())
    return answers[0]


def vote(cluster_id=CLUSTER_ID):
    key = ReplicaKey(1, Members()[1].directory_id)
    request = Vote(epoch=1, candidate=key, voter=key, log_end=End(0, 0), is_pre_vote=False)
    return request_to_wire(request, cluster_id)


def test_another_clusters_request_is_refused():
    assert answered(vote("another")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_request_about_another_topic_is_refused():
    message = vote()
    message.topics[0].topic_name = "orders"
    assert answered(message).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("kind", [api.VoteRequest, api.BeginQuorumEpochRequest, api.FetchSnapshotRequest])
def test_a_request_about_nothing_is_refused(kind):
    assert answered(kind(cluster_id=CLUSTER_ID)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_request_about_two_partitions_is_refused():
    message = vote()
    message.topics[0].partitions *= 2
    assert answered(message).error_code == ErrorCode.INVALID_REQUEST


def test_an_answer_says_where_the_leader_is():
    fetch = Fetch(epoch=0, replica=ReplicaKey(2, Members()[2 - 1].directory_id), fetch_offset=0, last_fetched_epoch=0)
    _, version = APIS[Fetch]
    response = over_the_wire(answered(request_to_wire(fetch, CLUSTER_ID)), version)
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, "node-1", 9001)


def test_a_node_that_is_stopping_answers_all_who_wait():
    members = Members(2)

    async def scene():
        member = members[1]
        await member.start()
        await member.quorum.wait_leader()
        fetch = Fetch(
            epoch=member.quorum.epoch,
            replica=members[2].me.key,
            fetch_offset=member.quorum.image.offset + 1,
            last_fetched_epoch=member.quorum.epoch,
            high_watermark=member.quorum.image.offset + 1,
            max_wait_ms=60_000,
        )
        parked = asyncio.ensure_future(member.quorum.answer(request_to_wire(fetch, CLUSTER_ID)))
        await asyncio.sleep(0.01)
        assert not parked.done()
        await member.quorum.close()
        assert (await parked).error_code == ErrorCode.NETWORK_EXCEPTION

    members.play(scene())


# ---- addresses ----


def voters(port):
    endpoint = Endpoint("PLAINTEXT", "set", port)
    return VoterSet((Voter(key=ReplicaKey(1, Members()[1].directory_id), endpoints=(endpoint,)),))


def test_leaders_say_where_they_are_until_the_voters_do():
    book = AddressBook()
    assert book.find(1, VoterSet()) is None
    assert book.find(1, voters(5)) == ("set", 5)
    leader = (Endpoint("PLAINTEXT", "told", 6),)
    key = ReplicaKey(2, Members()[1].directory_id)
    book.on_request(BeginEpoch(epoch=1, leader_id=1, voter=key, leader_endpoints=leader))
    assert book.find(1, voters(5)) == ("told", 6)
    book.on_voters_changed(voters(7))
    assert book.find(1, voters(7)) == ("set", 7)
