"""Nodes that join the voters, move, come back with another disk; and those that only follow."""

import asyncio
from uuid import UUID

from ottla.broker.quorum.membership import plan_change
from ottla.raft.messages import AddVoter, RemoveVoter, UpdateVoter
from ottla.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from ottla.wire import api
from tests.unit.broker.quorum.members import CLUSTER_ID, Member, Members

HERE = Endpoint("PLAINTEXT", "here", 1)
THERE = Endpoint("PLAINTEXT", "there", 1)


def voter(node_id=1, directory=7, endpoint=HERE):
    return Voter(key=ReplicaKey(node_id, UUID(int=directory)), endpoints=(endpoint,))


def planned(voters, me=None, *, may_join=True):
    return plan_change(VoterSet(tuple(voters)), me or voter(), may_join=may_join, epoch=5)


def test_whoever_is_no_voter_asks_to_be_one_if_it_may():
    assert isinstance(planned([voter(2)]), AddVoter)
    assert planned([voter(2)], may_join=False) is None


def test_a_voter_says_where_it_is_and_then_has_nothing_to_say():
    assert planned([voter()]) is None
    assert planned([voter(endpoint=THERE)], may_join=False) == UpdateVoter(epoch=5, voter=voter())


def test_a_voter_whose_disk_was_replaced_is_removed_first():
    assert planned([voter(directory=8), voter(2)]) == RemoveVoter(key=voter(directory=8).key)
    assert planned([voter(directory=8), voter(2)], may_join=False) is None


def test_a_node_that_moved_is_found_where_it_is():
    members = Members(3)

    async def scene():
        first = await members.found()
        third = members[3]
        third.kill()
        third.port = 7777
        await third.start(joins=1)
        await members.until(lambda: first.quorum.address_of(3) == ("node-3", 7777))
        assert len(first.quorum.voters) == 3

    members.play(scene())


def test_a_leader_alone_that_moved_says_so():
    members = Members()

    async def scene():
        member = await members.found()
        await member.quorum.wait_leader()
        member.kill()
        member.port = 7777
        await member.start()
        await members.until(lambda: member.quorum.voters.voters == (member.me,))

    members.play(scene())


def test_a_node_with_a_new_disk_takes_the_place_of_its_former_self():
    members = Members(3)

    async def scene():
        first = await members.found()
        await first.create("orders")
        third = members[3]
        third.kill()
        third.disk.remove_tree("/data")
        third.disk.make_directory("/data")
        third.directory_id = UUID(int=3333)
        await third.start(joins=1)
        await members.until(lambda: first.quorum.voters.holds(third.me.key))
        assert len(first.quorum.voters) == 3
        await members.until(lambda: third.topics == ["orders"])

    members.play(scene())


def test_a_second_process_with_the_same_id_takes_nobodys_vote(caplog):
    members = Members(3)

    async def scene():
        first = await members.found()
        third = members[3]
        double = Member(members, 3, members.world.new_machine("double"))
        double.directory_id, double.port = UUID(int=3333), 7777
        await double.start(joins=1)
        await asyncio.sleep(20)
        assert first.quorum.voters.holds(third.me.key)
        assert first.quorum.address_of(3) == ("node-3", 9003)
        assert len([each for each in caplog.records if "give one of them another node.id" in each.message]) == 1
        third.kill()
        members.by_id[3] = double  # It might be the same node with another disk, as far as anybody knows.
        await members.until(lambda: first.quorum.voters.holds(double.me.key))

    members.play(scene())


def test_a_broker_follows_as_an_observer_and_does_not_vote():
    members = Members(2)

    async def scene():
        await members[1].start()
        await members[2].start(joins=1, may_join=False)
        await members[1].quorum.wait_leader()
        await members[1].create("orders")
        await members.until(lambda: members[2].topics == ["orders"])
        await asyncio.sleep(5)
        assert members[1].quorum.voters.node_ids == (1,)
        assert [each.key.node_id for each in members[1].quorum.status().observers] == [2]
        members[1].kill()
        await asyncio.sleep(20)
        assert not members[2].quorum.is_leader
        await members[1].start()
        await members.until(lambda: members[2].quorum.leader_id == 1)

    members.play(scene())


def test_a_voter_is_removed_and_a_removed_leader_hands_over():
    members = Members(3)

    async def scene():
        first = await members.found()
        await first.create("orders")  # And with it the set of three is committed.
        request = api.RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID, voter_id=1, voter_directory_id=first.me.key.directory_id
        )
        response = await first.quorum.answer(request)
        assert response.error_code == 0
        await members.until(lambda: members.leader is not None and members.leader is not first)
        assert members.leader.quorum.voters.node_ids == (2, 3)

    members.play(scene())


def test_who_cannot_be_reached_is_not_added():
    members = Members(3)

    async def scene():
        await members[1].start()
        await members[1].quorum.wait_leader()
        request = api.AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=1000,
            voter_id=2,
            voter_directory_id=members[2].directory_id,
            listeners=[api.AddRaftVoterRequest.Listener(name="PLAINTEXT", host="node-2", port=1)],
        )
        response = await members[1].quorum.answer(request)
        assert "does not answer at the address" in response.error_message
        assert members[1].quorum.voters.node_ids == (1,)

    members.play(scene())
