"""SCRAM credentials of users: set anew, replaced, deleted. Each user of a request has an outcome of its own.

A user is named once in a request, whatever the mechanism: of two changes nobody could say which one was meant to last.
What is recorded are keys made of the salted password, never that itself (`metadata/scram.py`).
"""

from __future__ import annotations

from typing import TypeAlias

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.decision import RECORDS_PER_DECISION_MAX, Decision, too_large
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_records import scram_record
from ottla.metadata.records import MetadataRecord
from ottla.metadata.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramIdentity, ScramMechanism, credential_of
from ottla.wire import api

Deletion: TypeAlias = api.AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion: TypeAlias = api.AlterUserScramCredentialsRequest.ScramCredentialUpsertion


def decide_alter_scram_credentials(
    image: MetadataImage, request: api.AlterUserScramCredentialsRequest
) -> Decision[api.AlterUserScramCredentialsResponse]:
    changes: list[Deletion | Upsertion] = [*request.deletions, *request.upsertions]
    if len(changes) > RECORDS_PER_DECISION_MAX:
        raise too_large()
    outcomes: dict[str, MetadataRecord | ApiError] = {}
    for change in changes:
        before = outcomes.get(change.name)
        if not isinstance(before, ApiError):  # The first error of a user stands.
            outcomes[change.name] = _outcome(image, change) if before is None else _twice()
    return Decision(
        records=[outcome for outcome in outcomes.values() if not isinstance(outcome, ApiError)],
        reply=api.AlterUserScramCredentialsResponse(
            results=[_result(user, outcome) for user, outcome in outcomes.items()]
        ),
    )


def _outcome(image: MetadataImage, change: Deletion | Upsertion) -> MetadataRecord | ApiError:
    try:
        return _record_of(image, change)
    except ApiError as error:
        return error


def _twice() -> ApiError:
    return ApiError(ErrorCode.DUPLICATE_RESOURCE, "A user's credentials are changed at most once in a request.")


def _result(
    user: str, outcome: MetadataRecord | ApiError
) -> api.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult:
    result = api.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(user=user, error_message=None)
    if isinstance(outcome, ApiError):
        result.error_code, result.error_message = outcome.code, outcome.message
    return result


def _record_of(image: MetadataImage, change: Deletion | Upsertion) -> MetadataRecord:
    identity = ScramIdentity(_checked_name(change.name), _known_mechanism(change.mechanism))
    if isinstance(change, Deletion):
        if identity not in image.scram_credentials:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "The user has no credential for this mechanism to delete.")
        return api.RemoveUserScramCredentialRecord(name=identity.user, mechanism=identity.mechanism)
    _check_iterations(change.iterations)
    if not change.salted_password:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password is empty.")
    credential = credential_of(
        identity.mechanism,
        salt=change.salt,
        salted_password=change.salted_password,
        iterations=change.iterations,
    )
    return scram_record(identity, credential)


def _checked_name(user: str) -> str:
    if not user:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A user has a name.")
    return user


def _known_mechanism(number: int) -> ScramMechanism:
    try:
        return ScramMechanism(number)
    except ValueError:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"There is no SCRAM mechanism {number}.") from None


def _check_iterations(count: int) -> None:
    if count < ITERATIONS_MIN:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too few iterations: at least {ITERATIONS_MIN}.")
    if count > ITERATIONS_MAX:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too many iterations: at most {ITERATIONS_MAX}.")
