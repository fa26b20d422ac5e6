"""DescribeUserScramCredentials and AlterUserScramCredentials as a client sees them."""

from ottla.base.errors import ErrorCode
from ottla.broker.handlers.scram import APIS
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.admin_node import AdminNode, ask
from tests.unit.metadata.controller.test_scram import SHA_256, SHA_512, delete, set_to

Describe = api.DescribeUserScramCredentialsRequest


def alter(node, *, deletions=(), upsertions=()):
    request = api.AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))
    response = ask(node, APIS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
    return {one.user: ErrorCode(one.error_code).name for one in response.results}


def described(node, *users):
    """What is told of each: mechanisms with their iterations, or an error."""
    request = Describe(users=[Describe.UserName(name=user) for user in users])
    response = ask(node, APIS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
    assert response.error_code == 0
    return {
        one.user: ErrorCode(one.error_code).name
        if one.error_code
        else {info.mechanism: info.iterations for info in one.credential_infos}
        for one in response.results
    }


def node_with_users():
    node = AdminNode()
    alter(node, upsertions=[set_to("anna", SHA_512, 4096), set_to("berta")])
    alter(node, upsertions=[set_to("anna", SHA_256, 5000)])
    return node


def test_those_asked_for():
    assert described(node_with_users(), "anna") == {"anna": {SHA_256: 5000, SHA_512: 4096}}


def test_everybody():
    node = node_with_users()
    everybody = {"anna": {SHA_256: 5000, SHA_512: 4096}, "berta": {SHA_256: 8192}}
    assert described(node) == everybody
    response = ask(node, APIS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, Describe(users=None))
    assert [one.user for one in response.results] == list(everybody)
    assert described(AdminNode()) == {}


def test_who_is_unknown_or_named_twice_has_an_error_of_its_own():
    found = described(node_with_users(), "anna", "nobody", "berta", "anna")
    assert found == {"anna": "DUPLICATE_RESOURCE", "nobody": "RESOURCE_NOT_FOUND", "berta": {SHA_256: 8192}}


def test_a_deleted_user_is_unknown():
    node = node_with_users()
    assert alter(node, deletions=[delete("berta")]) == {"berta": "NONE"}
    assert described(node, "berta") == {"berta": "RESOURCE_NOT_FOUND"}


def test_a_refusal_of_the_whole_request_is_told_for_each_user():
    node = node_with_users()
    node.log.append_error = OSError(28, "full")
    found = alter(node, deletions=[delete("berta")], upsertions=[set_to("clara")])
    assert found == {"berta": "KAFKA_STORAGE_ERROR", "clara": "KAFKA_STORAGE_ERROR"}
    assert described(node, "clara") == {"clara": "RESOURCE_NOT_FOUND"}


def test_only_the_controller_alters_and_any_node_describes():
    assert APIS[ApiKey.ALTER_USER_SCRAM_CREDENTIALS].is_for_controller
    assert not APIS[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS].is_for_controller
