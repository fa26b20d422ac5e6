"""SCRAM credentials: their keys are those of the RFCs, and nothing shows them."""

import base64
import hashlib

import pytest

from ottla.metadata.scram import ScramMechanism, credential_of


def test_the_keys_check_the_exchange_of_rfc_7677():
    """User `user`, password `pencil`: section 3 has the whole exchange."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    found = credential_of(ScramMechanism.SHA_256, salt=salt, salted_password=salted, iterations=4096)

    first = "n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange = f"{first},r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}".encode()
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = _hmac(found.stored_key, exchange)
    client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == found.stored_key
    server_signature = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert _hmac(found.server_key, exchange) == server_signature


def _hmac(key, text):
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block) + text).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in block) + inner).digest()


@pytest.mark.parametrize(("mechanism", "key_bytes"), [(ScramMechanism.SHA_256, 32), (ScramMechanism.SHA_512, 64)])
def test_keys_are_as_long_as_the_hash(mechanism, key_bytes):
    found = credential_of(mechanism, salt=b"salt", salted_password=b"salted", iterations=8192)
    assert (len(found.stored_key), len(found.server_key)) == (key_bytes, key_bytes)
    assert found.stored_key != found.server_key


def test_a_credential_does_not_show_its_secrets():
    found = credential_of(ScramMechanism.SHA_256, salt=b"salt", salted_password=b"salted", iterations=8192)
    assert repr(found) == "ScramCredential(iterations=8192)"
