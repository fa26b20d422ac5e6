"""Until when a node whose disk was full may not believe what it knows."""

from ottla.broker.quorum.sight import Sight
from ottla.metadata.image import MetadataBatch, MetadataImage


def test_sight_is_back_with_all_that_was_committed_when_the_leader_was_heard_again() -> None:
    image = MetadataImage()
    sight = Sight(image)
    sight.on_leader_heard(7)
    assert not sight.is_lost
    sight.on_wait()
    sight.on_leader_heard(3)
    assert sight.is_lost
    sight.on_room()
    assert sight.is_lost, "what was committed meanwhile nobody has told yet"
    sight.on_leader_heard(-1)  # A refusal.
    sight.on_leader_heard(5)
    sight.on_leader_heard(9)
    image.replay_batch(MetadataBatch((), 3, 1, 0))
    assert sight.is_lost
    image.replay_batch(MetadataBatch((), 4, 1, 0))
    assert not sight.is_lost


def test_two_that_wait_are_waited_for() -> None:
    sight = Sight(MetadataImage())
    sight.on_wait()
    sight.on_wait()
    sight.on_room()
    sight.on_leader_heard(0)
    assert sight.is_lost
    sight.on_room()
    sight.on_leader_heard(0)
    assert not sight.is_lost
