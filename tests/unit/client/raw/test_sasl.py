"""The exchange with a broker that has its answers ready."""

from collections import deque
from typing import TypeVar, cast

import pytest

from ottla.base.errors import ErrorCode
from ottla.client import ClientError
from ottla.client.raw.sasl import authenticate
from ottla.client.raw.security import Credentials, Mechanism
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

R = TypeVar("R", bound=Message)
Answer = api.SaslAuthenticateResponse

PLAIN = Credentials(mechanism=Mechanism.PLAIN, username="anna", password="secret")
TOKEN = Credentials(mechanism=Mechanism.OAUTHBEARER, token=lambda: "ticket")
SCRAM = Credentials(mechanism=Mechanism.SCRAM_SHA_256, username="anna", password="secret")


class ScriptedBroker:
    """Takes the mechanisms that it offers; keeps what it was told."""

    def __init__(self, *answers: Answer, offers: tuple[str, ...] = tuple(Mechanism)) -> None:
        self._answers = deque(answers)
        self._offers = offers
        self.told: list[bytes] = []

    def ask(self, key: ApiKey, request: Message, response_class: type[R]) -> R:
        if isinstance(request, api.SaslHandshakeRequest):
            is_offered = request.mechanism in self._offers
            code = ErrorCode.NONE if is_offered else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return cast(R, api.SaslHandshakeResponse(error_code=code, mechanisms=list(self._offers)))
        assert isinstance(request, api.SaslAuthenticateRequest)
        self.told.append(bytes(request.auth_bytes))
        return cast(R, self._answers.popleft())


def refusal(message: str = "") -> Answer:
    return Answer(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message or None)


def test_a_password_is_sent_as_it_is() -> None:
    broker = ScriptedBroker(Answer(session_lifetime_ms=5000))
    assert authenticate(broker, PLAIN) == 5000
    assert broker.told == [b"\0anna\0secret"]


def test_a_token() -> None:
    broker = ScriptedBroker(Answer())
    assert authenticate(broker, TOKEN) == 0
    assert broker.told == [b"n,,\x01auth=Bearer ticket\x01\x01"]


def test_the_reason_of_a_refused_token_is_answered_before_the_refusal() -> None:
    broker = ScriptedBroker(Answer(auth_bytes=b'{"status":"invalid_token"}'), refusal("expired"))
    with pytest.raises(ClientError, match="OAUTHBEARER: expired"):
        authenticate(broker, TOKEN)
    assert broker.told[1:] == [b"\x01"]


def test_who_is_refused_is_told_why_and_not_tried_again() -> None:
    with pytest.raises(ClientError, match="'anna' by PLAIN: Invalid username or password") as caught:
        authenticate(ScriptedBroker(refusal("Invalid username or password")), PLAIN)
    assert caught.value.code == "SASL_AUTHENTICATION_FAILED" and not caught.value.retriable
    assert "secret" not in str(caught.value)


def test_a_broker_that_only_pretends_to_know_the_password() -> None:
    """PLAIN would have told it; SCRAM does not go on."""
    with pytest.raises(ClientError, match="SASL_AUTHENTICATION_FAILED: 'anna' by SCRAM-SHA-256"):
        authenticate(ScriptedBroker(Answer(auth_bytes=b"v=AAAA")), SCRAM)


@pytest.mark.parametrize(
    ("offers", "told"),
    [(("SCRAM-SHA-512", "PLAIN"), "offers SCRAM-SHA-512, PLAIN"), ((), "is this listener one for SASL")],
)
def test_what_a_broker_offers_is_told(offers: tuple[str, ...], told: str) -> None:
    with pytest.raises(ClientError, match=told):
        authenticate(ScriptedBroker(offers=offers), SCRAM)
