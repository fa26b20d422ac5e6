"""How another broker is started: an id that nobody has, the addresses of those that run, a rack where racks are used."""

from ottla.cli.add_broker import next_id, start_command
from tests.unit.cli.clusters import cluster, voter


def test_the_id_of_a_controller_that_is_no_broker_is_taken_too() -> None:
    state = cluster(voters=[voter(1), voter(4), voter(5)])
    assert next_id(state.brokers, state.quorum) == 6


def test_the_others_are_named_where_they_run_and_a_rack_is_asked_for() -> None:
    command = start_command(cluster(fenced=[2]).brokers, 4)
    assert "node.id=4 --config broker.rack=RACK " in command
    assert command.endswith("controller.quorum.bootstrap.servers=host1:9092,host3:9092")
    assert "rack" not in start_command(cluster(racks=[None, None]).brokers, 3)
