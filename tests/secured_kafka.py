"""Apache Kafka with listeners of every kind of security: TLS, TLS with certificates of clients, SASL, both.

For tests of clients; the certificates are made for it. `anna` is known by PLAIN and both SCRAMs, and so is whoever
brings an unsigned token.
"""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks.peers import ApacheKafka, free_port
from tests.certificates import Authority, Issued

USER = "anna"
PASSWORD = 'an"na=s, secret'
SESSION_MS = 3000
"""How long a session by SCRAM-SHA-512 lasts; the others have no end."""

PROTOCOLS = {"TLS": "SSL", "MTLS": "SSL", "SASL": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL"}
_JAAS = {
    "plain": ("plain.PlainLoginModule", f'user_{USER}="{PASSWORD}"'.replace('n"n', 'n\\"n')),
    "scram-sha-256": ("scram.ScramLoginModule", ""),
    "scram-sha-512": ("scram.ScramLoginModule", ""),
    "oauthbearer": ("oauthbearer.OAuthBearerLoginModule", 'unsecuredLoginStringClaim_sub="broker"'),
}
_TOKENS_UNSIGNED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredKafka:
    plaintext: str
    addresses: dict[str, str]
    """By the listeners' names in PROTOCOLS."""
    authority: Path
    client: Issued

    def options(self, listener: str, **sasl: str) -> dict[str, str]:
        """What a client of this listener needs, by Kafka's names; of SASL, `mechanism` and perhaps more."""
        found = {"bootstrap.servers": self.addresses[listener], "security.protocol": PROTOCOLS[listener]}
        if PROTOCOLS[listener].endswith("SSL"):
            found["ssl.ca.location"] = str(self.authority)
        if listener == "MTLS":
            found |= {
                "ssl.certificate.location": str(self.client.certificate),
                "ssl.key.location": str(self.client.key),
            }
        return found | {f"sasl.{name}": text for name, text in sasl.items()}


@contextmanager
def secured_kafka(directory: Path) -> Iterator[SecuredKafka]:
    authority = Authority(directory / "certificates")
    kafka = ApacheKafka(directory / "kafka")
    kafka.heap = "512m"
    ports = {name: free_port() for name in PROTOCOLS}
    kafka.properties = {
        **_listeners(kafka.port, free_port(), ports),
        **_tls(authority.issue("broker", "IP:127.0.0.1"), authority.certificate),
        **{name: text for listener in ("sasl", "sasltls") for name, text in _sasl(f"listener.name.{listener}").items()},
    }
    kafka.prepare()
    kafka.start()
    try:
        _add_user(kafka.bootstrap)
        yield SecuredKafka(
            plaintext=kafka.bootstrap,
            addresses={name: f"127.0.0.1:{port}" for name, port in ports.items()},
            authority=authority.certificate,
            client=authority.issue("client"),
        )
    finally:
        kafka.discard()


def _listeners(plaintext: int, controller: int, ports: dict[str, int]) -> dict[str, str]:
    every = {"PLAINTEXT": plaintext, "CONTROLLER": controller, **ports}
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **PROTOCOLS}
    return {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in every.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
    }


def _tls(broker: Issued, authority: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(broker.in_one_file()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
        "listener.name.mtls.ssl.client.auth": "required",
    }


def _sasl(listener: str) -> dict[str, str]:
    modules = {
        f"{listener}.{mechanism}.sasl.jaas.config": f"org.apache.kafka.common.security.{module} required {options};"
        for mechanism, (module, options) in _JAAS.items()
    }
    return {
        f"{listener}.sasl.enabled.mechanisms": ",".join(name.upper() for name in _JAAS),
        f"{listener}.oauthbearer.sasl.server.callback.handler.class": _TOKENS_UNSIGNED,
        f"{listener}.scram-sha-512.connections.max.reauth.ms": str(SESSION_MS),
        # A value in a properties file has its backslashes doubled.
        **{name: text.replace("\\", "\\\\") for name, text in modules.items()},
    }


def _add_user(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    changes = [
        UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    for change in changes:
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result()


def unsigned_token() -> str:
    """As Kafka takes it where tokens are not secured: for trying out."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": USER, "iat": now, "exp": now + 3600})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."
