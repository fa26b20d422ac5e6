"""Credentials set, replaced and deleted: each user of a request for itself."""

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.decision import RECORDS_PER_DECISION_MAX
from ottla.metadata.controller.scram import decide_alter_scram_credentials
from ottla.metadata.scram import ScramIdentity, ScramMechanism, credential_of
from ottla.wire import api
from tests.unit.metadata.cluster import apply, image_of

SHA_256, SHA_512 = ScramMechanism
ANNA = ScramIdentity("anna", SHA_256)


def set_to(user="anna", mechanism=SHA_256, iterations=8192, salt=b"salt", salted_password=b"salted"):
    return api.AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted_password
    )


def delete(user="anna", mechanism=SHA_256):
    return api.AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=user, mechanism=mechanism)


def decide(image, *changes):
    deletions = [one for one in changes if isinstance(one, type(delete()))]
    upsertions = [one for one in changes if isinstance(one, type(set_to()))]
    return decide_alter_scram_credentials(
        image, api.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    )


def outcomes(image, *changes):
    """Each user's error; what is decided is applied."""
    decision = decide(image, *changes)
    apply(image, decision)
    return {one.user: ErrorCode(one.error_code).name for one in decision.reply.results}


def test_set_replaced_and_deleted():
    image = image_of()
    assert outcomes(image, set_to()) == {"anna": "NONE"}
    assert image.scram_credentials == {
        ANNA: credential_of(SHA_256, salt=b"salt", salted_password=b"salted", iterations=8192)
    }
    assert outcomes(image, set_to(iterations=4096)) == {"anna": "NONE"}
    assert image.scram_credentials[ANNA].iterations == 4096
    assert outcomes(image, delete()) == {"anna": "NONE"}
    assert image.scram_credentials == {}


def test_the_salted_password_is_not_recorded():
    [record] = decide(image_of(), set_to(salted_password=b"never to be written")).records
    assert b"never to be written" not in (record.salt, record.stored_key, record.server_key)


def test_mechanisms_are_apart():
    image = image_of()
    outcomes(image, set_to(mechanism=SHA_256))
    outcomes(image, set_to(mechanism=SHA_512))
    assert outcomes(image, delete(mechanism=SHA_256)) == {"anna": "NONE"}
    assert list(image.scram_credentials) == [ScramIdentity("anna", SHA_512)]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (set_to(iterations=4095), "UNACCEPTABLE_CREDENTIAL"),
        (set_to(iterations=4096), "NONE"),
        (set_to(iterations=16_384), "NONE"),
        (set_to(iterations=16_385), "UNACCEPTABLE_CREDENTIAL"),
        (set_to(salted_password=b""), "UNACCEPTABLE_CREDENTIAL"),
        (set_to(user=""), "UNACCEPTABLE_CREDENTIAL"),
        (delete(user=""), "UNACCEPTABLE_CREDENTIAL"),
        (set_to(mechanism=0), "UNSUPPORTED_SASL_MECHANISM"),
        (delete(mechanism=3), "UNSUPPORTED_SASL_MECHANISM"),
        (delete(), "RESOURCE_NOT_FOUND"),
    ],
)
def test_what_a_change_comes_to(change, error):
    image = image_of()
    assert outcomes(image, change) == {change.name: error}
    assert bool(image.scram_credentials) == (error == "NONE")


def test_another_mechanism_is_not_there_to_delete():
    image = image_of()
    outcomes(image, set_to(mechanism=SHA_256))
    assert outcomes(image, delete(mechanism=SHA_512)) == {"anna": "RESOURCE_NOT_FOUND"}


def test_each_user_has_an_outcome_of_its_own():
    image = image_of()
    found = outcomes(image, set_to("anna"), set_to("berta", iterations=1), delete("clara"))
    assert found == {"anna": "NONE", "berta": "UNACCEPTABLE_CREDENTIAL", "clara": "RESOURCE_NOT_FOUND"}
    assert list(image.scram_credentials) == [ANNA]


@pytest.mark.parametrize(
    "twice", [(set_to(), set_to(mechanism=SHA_512)), (delete(), set_to()), (delete(), delete(mechanism=SHA_512))]
)
def test_a_user_is_changed_once_in_a_request(twice):
    image = image_of()
    outcomes(image, set_to())
    before = image.scram_credentials.copy()
    assert outcomes(image, *twice, set_to("berta")) == {"anna": "DUPLICATE_RESOURCE", "berta": "NONE"}
    assert image.scram_credentials[ANNA] == before[ANNA]


def test_the_first_error_of_a_user_stands():
    assert outcomes(image_of(), delete(), set_to()) == {"anna": "RESOURCE_NOT_FOUND"}
    assert outcomes(image_of(), set_to(iterations=1), set_to()) == {"anna": "UNACCEPTABLE_CREDENTIAL"}


def test_more_than_a_batch_holds_is_refused():
    with pytest.raises(ApiError) as refused:
        decide(image_of(), *(set_to(str(number)) for number in range(RECORDS_PER_DECISION_MAX + 1)))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
