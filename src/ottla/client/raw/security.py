"""What makes a connection safe: TLS, and SASL credentials. By options' names: `security_options`.

Values only, to be pickled to workers and compared; passwords and keys are not in their texts.
"""

import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_PEM: Final = "-----BEGIN"


class Mechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    mechanism: Mechanism
    username: str = ""
    password: str = field(default="", repr=False)
    token: Callable[[], str] | None = None
    """Of OAUTHBEARER: asked anew for every connection, and again before a session ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates and keys are paths of PEM files, or PEM texts."""

    ca: str = ""
    """Who may sign a broker's certificate; empty for whom the machine trusts."""
    certificate: str = ""
    """Our own, where brokers want one, and those between it and its authority."""
    key: str = field(default="", repr=False)
    """Empty where it is in the file of `certificate`."""
    key_password: str = field(default="", repr=False)
    checks_certificate: bool = True
    checks_host: bool = True
    versions: tuple[ssl.TLSVersion, ...] = ()
    """Those allowed; empty for 1.2 and newer."""

    def context(self) -> ssl.SSLContext:
        """`OSError` (also `ssl.SSLError`) where a file is not what it should be."""
        is_text = is_pem(self.ca)
        context = ssl.create_default_context(
            cafile=None if is_text else self.ca or None, cadata=self.ca if is_text else None
        )
        context.check_hostname = self.checks_host and self.checks_certificate
        if not self.checks_certificate:
            context.verify_mode = ssl.CERT_NONE
        if self.versions:
            context.minimum_version, context.maximum_version = min(self.versions), max(self.versions)
        if self.certificate:
            with _file_of(self.certificate) as certificate, _file_of(self.key) as key:
                # Without a password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(certificate, key or None, lambda: self.key_password)
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    tls: Tls | None = None
    sasl: Credentials | None = None

    @property
    def protocol(self) -> str:
        """Kafka's name for it."""
        if self.sasl is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"


PLAINTEXT: Final = Security()


def is_pem(text: str) -> bool:
    return text.lstrip().startswith(_PEM)


@contextmanager
def _file_of(text: str) -> Iterator[str]:
    """OpenSSL reads keys from files only: a text becomes one that nobody else can read, for as long as it takes."""
    if not is_pem(text):
        yield text
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(text)
        file.flush()
        yield file.name
