"""Security by the names that people know: Kafka's (Java's) and librdkafka's, in one list.

What Java calls a PEM store is taken, JKS and PKCS 12 are Java's own and are refused with the way out. Nothing is passed
over: a setting that was meant to make a connection safer must not be lost in silence.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from ottla.client.errors import ConfigError
from ottla.client.raw.security import PLAINTEXT, Credentials, Mechanism, Security, Tls, is_pem

PREFIXES: Final = ("security.", "sasl.", "ssl.", "enable.ssl.")
"""What the names of all options here begin with."""

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_TLS_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_FLAGS: Final = {"true": True, "false": False}
_MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": (Mechanism.PLAIN,),
    "org.apache.kafka.common.security.scram.ScramLoginModule": (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512),
}
_JAAS: Final = re.compile(r"\s*([\w.]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL)
_JAAS_OPTION: Final = re.compile(r"""\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")
_ALGORITHM: Final = "ssl.endpoint.identification.algorithm"
_TO_PEM: Final = "with openssl or keytool make a PEM file of it, and name that"


def is_security_option(name: str) -> bool:
    return name.startswith(PREFIXES)


def parse_security(given: Mapping[str, str], *, prefix: str = "") -> Security:
    """ValueError, in a sentence that says what to do, of everything that is wrong. `prefix` is that of names there."""
    options = _Options(given, prefix)
    protocol = options.choice(("security.protocol",), _PROTOCOLS, "PLAINTEXT")
    security = Security(
        tls=_tls(options) if protocol.endswith("SSL") else None,
        sasl=_credentials(options) if protocol.startswith("SASL_") else None,
    )
    options.end(protocol)
    return PLAINTEXT if security == PLAINTEXT else security


def sdk_security(options: Mapping[str, object]) -> Security:
    """Of the options of a client of the SDK. `ConfigError` where librdkafka may know more than we do here."""
    try:
        return parse_security({name: str(value) for name, value in options.items() if is_security_option(name)})
    except ValueError as error:
        raise ConfigError(f"a request that librdkafka does not know is sent without it, but: {error}") from None


def sdk_options(security: Security) -> dict[str, object]:
    """For a client of the SDK, that is, for librdkafka."""
    found: dict[str, object] = {"security.protocol": security.protocol}
    tls, sasl = security.tls, security.sasl
    if sasl is not None:
        found["sasl.mechanism"] = sasl.mechanism.value
        if sasl.token is not None:
            raise ConfigError("OAUTHBEARER is not for what goes through librdkafka: dead letters need PLAIN or SCRAM")
        found |= {"sasl.username": sasl.username, "sasl.password": sasl.password}
    if tls is not None:
        for name, text in (("ca", tls.ca), ("certificate", tls.certificate), ("key", tls.key or tls.certificate)):
            found |= {f"ssl.{name}.{'pem' if is_pem(text) else 'location'}": text} if text else {}
        found |= {"ssl.key.password": tls.key_password} if tls.key_password else {}
        found |= {
            "enable.ssl.certificate.verification": tls.checks_certificate,
            _ALGORITHM: "https" if tls.checks_host else "none",
        }
    return found


def in_librdkafkas_names(options: Mapping[str, str]) -> dict[str, object]:
    """Options of a client by Kafka's names, with those of security as librdkafka has them."""
    given = {name: text for name, text in options.items() if is_security_option(name)}
    others = {name: text for name, text in options.items() if name not in given}
    return {**others, **sdk_options(parse_security(given))}


class _Options:
    """Taken one by one; an option that has two names may be said by either."""

    def __init__(self, given: Mapping[str, str], prefix: str) -> None:
        self._given = given
        self._taken: set[str] = set()
        self._prefix = prefix

    def told(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def text(self, *names: str) -> str:
        found = [text for name in names if (text := self._given.get(name))]
        self._taken.update(names)
        if len(set(found)) > 1:
            raise ValueError(f"{' and '.join(map(self.told, names))} mean the same and differ: keep one of them")
        return found[0] if found else ""

    def has(self, name: str) -> bool:
        return name in self._given

    def choice(self, names: tuple[str, ...], choices: tuple[str, ...], default: str = "") -> str:
        text = self.text(*names) or default
        if not text:
            raise ValueError(f"{self.told(names[0])} is missing: {_or(choices)}")
        if text.upper() not in choices:
            raise ValueError(f"{self.told(names[0])}={text}: {_or(choices)}")
        return text.upper()

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name) or str(default)
        if text.lower() not in _FLAGS:
            raise ValueError(f"{self.told(name)}={text}: true or false")
        return _FLAGS[text.lower()]

    def end(self, protocol: str) -> None:
        for name in sorted(self._given.keys() - self._taken):
            family = name.removeprefix("enable.").split(".")[0].upper()
            if family in ("SSL", "SASL") and family not in protocol:
                raise ValueError(
                    f"{self.told(name)} has no meaning with {self.told('security.protocol')}={protocol}: "
                    f"drop it, or choose one of {', '.join(one for one in _PROTOCOLS if family in one)}"
                )
            raise ValueError(f"{self.told(name)} is not known here: docs/SPARK.md lists the options of TLS and SASL")


# -- TLS -------------------------------------------------------------------------------------------------------------


def _tls(options: _Options) -> Tls:
    for store in ("truststore", "keystore"):
        _check_store(options, store)
    certificate = options.text("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.certificate.chain")
    key = options.text("ssl.key.location", "ssl.key.pem", "ssl.keystore.key")
    keystore = options.text("ssl.keystore.location")
    if keystore and certificate:
        raise ValueError(f"{options.told('ssl.keystore.location')} and a certificate of its own: keep one of them")
    if key and not certificate:
        raise ValueError(f"a key without its certificate: {options.told('ssl.certificate.location')} is missing")
    # An empty one is Java's way to turn the check of hosts off.
    algorithm = options.text(_ALGORITHM) or ("none" if options.has(_ALGORITHM) else "https")
    if algorithm.lower() not in ("https", "none"):
        raise ValueError(f"{options.told(_ALGORITHM)}={algorithm}: https or none")
    return Tls(
        ca=options.text("ssl.ca.location", "ssl.ca.pem", "ssl.truststore.location", "ssl.truststore.certificates"),
        certificate=certificate or keystore,
        key=key,
        key_password=options.text("ssl.key.password"),
        checks_certificate=options.flag("enable.ssl.certificate.verification", default=True),
        checks_host=algorithm.lower() == "https",
        versions=_versions(options),
    )


def _check_store(options: _Options, store: str) -> None:
    location = f"ssl.{store}.location"
    kind = options.text(f"ssl.{store}.type") or ("JKS" if options.has(location) else "PEM")
    if kind.upper() != "PEM":
        instead = "ssl.ca.location" if store == "truststore" else "ssl.certificate.location"
        raise ValueError(
            f"{options.told(location)} of type {kind} is a format of Java's: {_TO_PEM} in {options.told(instead)} "
            f"(or here, with {options.told(f'ssl.{store}.type')}=PEM)"
        )


def _versions(options: _Options) -> tuple[ssl.TLSVersion, ...]:
    text = options.text("ssl.enabled.protocols")
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in _TLS_VERSIONS:
            raise ValueError(f"{options.told('ssl.enabled.protocols')}={text}: {_or(_TLS_VERSIONS)}")
    return tuple(_TLS_VERSIONS[name] for name in names)


# -- SASL ------------------------------------------------------------------------------------------------------------


def _credentials(options: _Options) -> Credentials:
    mechanism = Mechanism(options.choice(("sasl.mechanism", "sasl.mechanisms"), tuple(Mechanism)))
    if mechanism is Mechanism.OAUTHBEARER:
        return Credentials(mechanism=mechanism, token=_token_function(options))
    username, password = options.text("sasl.username"), options.text("sasl.password")
    jaas = options.text("sasl.jaas.config")
    if jaas and (username or password):
        raise ValueError(
            f"{options.told('sasl.jaas.config')} and {options.told('sasl.username')} both say who is there: keep one"
        )
    if jaas:
        username, password = _from_jaas(options, jaas, mechanism)
    if not username or not password:
        raise ValueError(
            f"{mechanism} needs {options.told('sasl.username')} and {options.told('sasl.password')} "
            f"(or {options.told('sasl.jaas.config')} with both)"
        )
    return Credentials(mechanism=mechanism, username=username, password=password)


def _from_jaas(options: _Options, text: str, mechanism: Mechanism) -> tuple[str, str]:
    """The text itself is not repeated in errors: there is a password in it."""
    name = options.told("sasl.jaas.config")
    said = _JAAS.fullmatch(text)
    if said is None:
        raise ValueError(f'{name}: <login module> required username="…" password="…"; is the form')
    module, rest = said.groups()
    if mechanism not in _MODULES.get(module, ()):
        fitting = next(each for each, mechanisms in _MODULES.items() if mechanism in mechanisms)
        raise ValueError(f"{name}: {module} is not for {mechanism}, {fitting} is")
    found = {
        option: re.sub(r"\\(.)", r"\1", double or single) or bare
        for option, double, single, bare in _JAAS_OPTION.findall(rest)
    }
    return found.get("username", ""), found.get("password", "")


def _token_function(options: _Options) -> Callable[[], str]:
    name = options.told("sasl.oauthbearer.token.function")
    said = options.text("sasl.oauthbearer.token.function")
    module, _, function = said.partition(":")
    if not module or not function:
        raise ValueError(f"OAUTHBEARER needs {name}=module:function, which is called without arguments for a token")
    try:
        found: Callable[[], str] = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name}={said}: {error}") from None
    return found


def _or(choices: Mapping[str, object] | tuple[str, ...]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}"
