"""SCRAM as the RFCs write it down, and servers that do not."""

import pytest

from ottla.client.raw.scram import ScramError, ScramExchange

SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def exchange(hash_name: str = "sha256", password: str = "pencil") -> ScramExchange:
    return ScramExchange(hash_name, "user", password, nonce="rOprNGfwEbeRWgbNEkqO")


def test_the_conversation_of_rfc_7677() -> None:
    """Its section 3, SHA-256."""
    client = exchange()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.answer(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_the_conversation_of_rfc_5802() -> None:
    """Its section 5, SHA-1, which no broker offers: the exchange is the same for every hash."""
    client = ScramExchange("sha1", "user", "pencil", nonce="fyko+d2lbbFgONRv9qkxdawL")
    assert client.first() == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    challenge = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    assert client.answer(challenge) == (
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    )
    assert client.answer(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=") is None


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    client = exchange(password="eraser")
    client.answer(SERVER_FIRST)
    with pytest.raises(ScramError, match="does not know the password"):
        client.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("challenge", "told"),
    [
        (b"e=other-error", "other-error"),
        (SERVER_FIRST.replace(b"r=rO", b"r=RO"), "somebody else"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "somebody else"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1"), "i=1 "),
        (SERVER_FIRST.replace(b"i=4096", b"i=99999999"), "i=99999999 "),
        (SERVER_FIRST.replace(b"i=4096", b"i=many"), "i=many "),
        (SERVER_FIRST.replace(b"s=W22", b"s=?22"), "no s="),
        (b"hello", "not SCRAM"),
        (b"\xff\xfe=", "not SCRAM"),
    ],
)
def test_a_strange_challenge_is_refused(challenge: bytes, told: str) -> None:
    with pytest.raises(ScramError, match=told):
        exchange().answer(challenge)


def test_names_cannot_break_out_of_their_field() -> None:
    assert ScramExchange("sha256", "a,b=c", "x", nonce="n").first() == b"n,,n=a=2Cb=3Dc,r=n"


def test_every_exchange_has_a_nonce_of_its_own() -> None:
    assert ScramExchange("sha256", "user", "x").first() != ScramExchange("sha256", "user", "x").first()
