"""The words of confluent-kafka's driver for users and access control lists."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.conformance.drivers.loop import refusal

TIMEOUT_S = 30
MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
NAMES = {mechanism: name for name, mechanism in MECHANISMS.items()}


class Users:
    def __init__(self, admin: AdminClient, code_of: Callable[[BaseException], int]) -> None:
        self._admin = admin
        self._code_of = code_of

    def operations(self) -> dict[str, Callable[..., Any]]:
        words = (self.alter_users, self.describe_users, self.create_acl, self.delete_acls)
        return {word.__name__: word for word in words}

    def alter_users(self, changes: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Sets a password or, where there is none in the change, deletes it; each user's outcome."""
        futures = self._admin.alter_user_scram_credentials([_alteration(**change) for change in changes])
        return {user: self._outcome(future, lambda _: {}) for user, future in futures.items()}

    def describe_users(self, users: list[str] | None) -> dict[str, Any]:
        """Mechanisms and their iterations, or an error, of each; of everybody where nobody is named."""

        def described(found: Any) -> dict[str, int]:
            return {NAMES[info.mechanism]: info.iterations for info in found.scram_credential_infos}

        asked = self._admin.describe_user_scram_credentials(users)
        if users is None:
            return {user: described(found) for user, found in asked.result(TIMEOUT_S).items()}
        return {user: self._outcome(future, described) for user, future in asked.items()}

    def create_acl(self, topic: str, principal: str) -> None:
        kind, pattern = ResourceType.TOPIC, ResourcePatternType.LITERAL
        entry = AclBinding(kind, topic, pattern, principal, "*", AclOperation.READ, AclPermissionType.ALLOW)
        [future] = self._admin.create_acls([entry]).values()
        future.result(TIMEOUT_S)

    def delete_acls(self) -> list[str]:
        everything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        [future] = self._admin.delete_acls([everything]).values()
        return [str(found) for found in future.result(TIMEOUT_S)]

    def _outcome(self, future: "Future[Any]", described: Callable[[Any], Any]) -> Any:
        try:
            return described(future.result(TIMEOUT_S))
        except Exception as error:
            return refusal(error, self._code_of)


def _alteration(
    user: str, mechanism: str, password: str | None = None, iterations: int = 4096
) -> UserScramCredentialAlteration:
    if password is None:
        return UserScramCredentialDeletion(user, MECHANISMS[mechanism])
    return UserScramCredentialUpsertion(
        user, ScramCredentialInfo(MECHANISMS[mechanism], iterations), password.encode(), b"salt"
    )
