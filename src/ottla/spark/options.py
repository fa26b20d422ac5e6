"""The options of a source or sink: taken one by one, by name, whatever its case, as Spark does.

What nobody has taken in the end is refused, and so is a value that is not what its option needs: a misspelled limit that
is silently ignored is found in production.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from ottla.client.raw.security import Security
from ottla.client.raw.security_options import is_security_option, parse_security

KAFKA_PREFIX: Final = "kafka."
BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"

_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}
_Number = TypeVar("_Number", int, None)


class OptionError(ValueError):
    """An option that is unknown, malformed, or contradicts another."""


class Options:
    def __init__(self, given: Mapping[str, str]) -> None:
        self._left = {name.lower(): value for name, value in given.items()}

    def has(self, name: str) -> bool:
        return name.lower() in self._left

    def text(self, name: str, default: str = "") -> str:
        return self._left.pop(name.lower(), "") or default

    def bootstrap_servers(self) -> str:
        servers = self.text(BOOTSTRAP_SERVERS)
        if not servers:
            raise OptionError(f"the option {BOOTSTRAP_SERVERS} is missing: .option({BOOTSTRAP_SERVERS!r}, 'host:port')")
        return servers

    def security(self) -> Security:
        """Of all connections to brokers."""
        given = {name: text for name, text in self._left.items() if is_security_option(name.removeprefix(KAFKA_PREFIX))}
        self._left = {name: text for name, text in self._left.items() if name not in given}
        try:
            return parse_security(
                {name.removeprefix(KAFKA_PREFIX): text for name, text in given.items()}, prefix=KAFKA_PREFIX
            )
        except ValueError as error:
            raise OptionError(str(error)) from None

    def count(self, name: str, default: _Number) -> int | _Number:
        if not (text := self.text(name)):
            return default
        if not text.isdecimal() or int(text) == 0:
            raise OptionError(f"{name}={text}: a positive whole number is needed")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in _FLAGS:
            raise OptionError(f"{name}={text}: true or false")
        return _FLAGS[text]

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        return one_of(name, self.text(name, default), choices)

    def refuse_all_but(self, name: str, *allowed: str, because: str) -> None:
        text = self.text(name, allowed[0])
        if text.lower() not in allowed:
            raise OptionError(f"{name}={text}: only {' or '.join(allowed)}, {because}")

    def end(self, passed_over: Collection[str]) -> None:
        """All were asked for. Those passed over tune a Java client, of which there is none here."""
        unknown = sorted(self._left.keys() - set(passed_over))
        if unknown:
            raise OptionError(f"unknown options: {', '.join(unknown)}")


def one_of(name: str, text: str, choices: Collection[str]) -> str:
    """As it stands in `choices`, whatever its case here."""
    for choice in choices:
        if choice.lower() == text.lower():
            return choice
    raise OptionError(f"{name}={text}: one of {', '.join(choices)}")


def whole_number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{name}={text} is not a whole number") from None


def json_object(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise OptionError(f"{name} is not a JSON object")
    return value
