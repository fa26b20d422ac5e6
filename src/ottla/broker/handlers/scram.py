"""DescribeUserScramCredentials v0, AlterUserScramCredentials v0: who has a password, and passwords set and deleted.

Any broker describes, from what is committed: mechanisms and iterations, never salt or keys. The controller alters.

Not done: listeners do not check these credentials yet, they are plaintext.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.metadata.controller.scram import decide_alter_scram_credentials
from ottla.metadata.image import MetadataImage
from ottla.metadata.scram import ScramIdentity, ScramMechanism
from ottla.wire import api
from ottla.wire.apis import ApiKey


async def describe_user_scram_credentials(
    node: Node, context: RequestContext, request: api.DescribeUserScramCredentialsRequest
) -> api.DescribeUserScramCredentialsResponse:
    """No users named, or an empty list of them, is everybody."""
    asked = Counter(user.name for user in request.users or ())
    everybody = sorted({identity.user for identity in node.image.scram_credentials})
    return api.DescribeUserScramCredentialsResponse(
        results=[_described(node.image, user, asked[user]) for user in asked or everybody]
    )


def _described(
    image: MetadataImage, user: str, times_asked: int
) -> api.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult:
    result = api.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult(user=user)
    if times_asked > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"User {user} is named twice in the request."
        return result
    for mechanism in ScramMechanism:
        credential = image.scram_credentials.get(ScramIdentity(user, mechanism))
        if credential is not None:
            result.credential_infos.append(
                api.DescribeUserScramCredentialsResponse.CredentialInfo(
                    mechanism=mechanism, iterations=credential.iterations
                )
            )
    if not result.credential_infos:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"User {user} has no SCRAM credentials."
    return result


async def alter_user_scram_credentials(
    node: Node, context: RequestContext, request: api.AlterUserScramCredentialsRequest
) -> api.AlterUserScramCredentialsResponse:
    try:
        return await node.submit(lambda image: decide_alter_scram_credentials(image, request))
    except ApiError as error:
        users = dict.fromkeys([one.name for one in request.deletions] + [one.name for one in request.upsertions])
        return api.AlterUserScramCredentialsResponse(
            results=[
                api.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(
                    user=user, error_code=error.code, error_message=error.message
                )
                for user in users
            ]
        )


APIS: Final[dict[int, Api]] = {
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Api(versions=(0, 0), handle=describe_user_scram_credentials),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Api(
        versions=(0, 0), handle=alter_user_scram_credentials, is_for_controller=True
    ),
}
