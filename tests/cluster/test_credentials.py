"""Users' credentials on three nodes: any of them takes a change on to the controller, all of them know it."""

from ottla.metadata.scram import ScramMechanism
from ottla.testing import Broker
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.chaos.brokers import wait_until
from tests.cluster.site import Site, connection_to

Alter, Describe = api.AlterUserScramCredentialsRequest, api.DescribeUserScramCredentialsRequest


def set_password(node: Broker, user: str, iterations: int) -> int:
    change = Alter.ScramCredentialUpsertion(
        name=user, mechanism=ScramMechanism.SHA_512, iterations=iterations, salt=b"salt", salted_password=b"salted"
    )
    with connection_to(node) as connection:
        answer = connection.ask(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, Alter(upsertions=[change]), api.AlterUserScramCredentialsResponse
        )
    [result] = answer.results
    return result.error_code


def iterations_of(node: Broker) -> dict[str, int]:
    with connection_to(node) as connection:
        answer = connection.ask(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, Describe(users=None), api.DescribeUserScramCredentialsResponse
        )
    return {one.user: one.credential_infos[0].iterations for one in answer.results}


def test_every_node_takes_a_change_and_all_know_it_after_the_controller_died(site: Site) -> None:
    expected: dict[str, int] = {}
    for node in site.cluster.nodes:
        user, iterations = f"user-{node.id}", 5000 + node.id
        assert set_password(node, user, iterations) == 0
        expected[user] = iterations
        assert iterations_of(node) == expected, "a change is known where it was asked for"
    controller = site.cluster.controller
    controller.kill()
    others = [node for node in site.cluster.nodes if node.id != controller.id]
    wait_until(lambda: set_password(others[0], "late", 4096) == 0, "a change by the next controller")
    expected["late"] = 4096
    controller.restart()
    for node in site.cluster.nodes:
        wait_until(lambda node=node: iterations_of(node) == expected, f"the credentials on {node.id}")
