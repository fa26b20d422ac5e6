"""TLS and SASL by the names that Kafka's and librdkafka's users know."""

import ssl

import pytest

from ottla.client import ConfigError
from ottla.client.raw.security import PLAINTEXT, Credentials, Mechanism, Security, Tls
from ottla.client.raw.security_options import parse_security, sdk_options, sdk_security

PLAIN_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="anna" password="p\\"w;d";'
SCRAM_JAAS = """
    org.apache.kafka.common.security.scram.ScramLoginModule  required
    password='a b'
    username=anna ;
"""
ANNA = {"sasl.username": "anna", "sasl.password": "secret"}
PEM = "-----BEGIN CERTIFICATE-----\n…"


def token() -> str:
    return "ticket"


def sasl(mechanism: str, **more: str) -> dict[str, str]:
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, **more}


@pytest.mark.parametrize("given", [{}, {"security.protocol": "plaintext"}])
def test_nothing_said_is_plain_text(given: dict[str, str]) -> None:
    assert parse_security(given) is PLAINTEXT


def test_librdkafkas_names() -> None:
    files = {"ssl.ca.location": "ca.pem", "ssl.certificate.location": "me.pem", "ssl.key.location": "key.pem"}
    given = {"security.protocol": "sasl_ssl", "sasl.mechanisms": "scram-sha-512", **ANNA, **files}
    assert parse_security({**given, "ssl.key.password": "open"}) == Security(
        tls=Tls(ca="ca.pem", certificate="me.pem", key="key.pem", key_password="open"),
        sasl=Credentials(mechanism=Mechanism.SCRAM_SHA_512, username="anna", password="secret"),
    )


def test_javas_pem_stores() -> None:
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": PEM,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "both.pem",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.enabled.protocols": "TLSv1.3",
    }
    assert parse_security(given) == Security(
        tls=Tls(ca=PEM, certificate="both.pem", checks_host=False, versions=(ssl.TLSVersion.TLSv1_3,))
    )


@pytest.mark.parametrize(
    ("mechanism", "jaas", "password"),
    [("PLAIN", PLAIN_JAAS, 'p"w;d'), ("SCRAM-SHA-256", SCRAM_JAAS, "a b"), ("SCRAM-SHA-512", SCRAM_JAAS, "a b")],
)
def test_javas_login_configuration(mechanism: str, jaas: str, password: str) -> None:
    found = parse_security(sasl(mechanism, **{"sasl.jaas.config": jaas})).sasl
    assert found == Credentials(mechanism=Mechanism(mechanism), username="anna", password=password)


def test_a_function_gives_the_token() -> None:
    found = parse_security(sasl("OAUTHBEARER", **{"sasl.oauthbearer.token.function": f"{__name__}:token"})).sasl
    assert found is not None and found.token is not None
    assert found.token() == "ticket"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"security.protocol": "TLS"}, "kafka.security.protocol=TLS: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism is missing"),
        (sasl("GSSAPI"), "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"),
        (sasl("PLAIN"), "PLAIN needs kafka.sasl.username and kafka.sasl.password"),
        (sasl("PLAIN", **{"sasl.mechanisms": "SCRAM-SHA-256"}, **ANNA), "mean the same and differ"),
        (sasl("PLAIN", **ANNA, **{"sasl.jaas.config": PLAIN_JAAS}), "keep one"),
        (sasl("SCRAM-SHA-256", **{"sasl.jaas.config": PLAIN_JAAS}), "ScramLoginModule is"),
        (sasl("PLAIN", **{"sasl.jaas.config": "anna:secret"}), "is the form"),
        (sasl("OAUTHBEARER"), "module:function"),
        (sasl("OAUTHBEARER", **{"sasl.oauthbearer.token.function": "no_such:thing"}), "No module named 'no_such'"),
        (sasl("PLAIN", **ANNA, **{"ssl.ca.location": "ca.pem"}), "choose one of SSL, SASL_SSL"),
        (ANNA, "choose one of SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "t.jks"}, "PEM file"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "k", "ssl.keystore.type": "PKCS12"}, "PEM file"),
        ({"security.protocol": "SSL", "ssl.key.location": "key.pem"}, "kafka.ssl.certificate.location is missing"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "NULL"}, "kafka.ssl.cipher.suites is not known"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "TLSv1.2 or TLSv1.3"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "LDAPS"}, "https or none"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "maybe"}, "true or false"),
    ],
)
def test_what_is_wrong_is_told_with_what_would_be_right(given: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_security(given, prefix="kafka.")
    assert told in str(caught.value)


def test_secrets_are_in_no_text() -> None:
    given = sasl("PLAIN", **{"sasl.jaas.config": PLAIN_JAAS}) | {"security.protocol": "SASL_SSL"}
    key = {"ssl.certificate.location": "me.pem", "ssl.key.pem": "-----BEGIN KEY", "ssl.key.password": "sesame"}
    text = repr(parse_security({**given, **key}))
    assert not [secret for secret in ('p"w;d', "BEGIN KEY", "sesame") if secret in text]


def test_librdkafka_is_told_the_same() -> None:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN_JAAS}
    security = parse_security({**given, "ssl.ca.pem": PEM, "ssl.endpoint.identification.algorithm": "none"})
    options = sdk_options(security)
    assert options["sasl.password"] == 'p"w;d'
    assert sdk_security(options) == security


def test_what_only_librdkafka_knows_is_told_when_it_is_needed() -> None:
    with pytest.raises(ConfigError, match="GSSAPI"):
        sdk_security(sasl("GSSAPI"))
