"""PostgreSQL's texts of values as JSON, with Debezium's choices where JSON has none of its own (docs/CDC.md, "Types").

The texts are those of a session with `connection.SESSION`: ISO dates, UTC, hexadecimal bytes. What has no such form,
such as `infinity` or a year before Christ, stays PostgreSQL's text, and so does every type that is not named here.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final, TypeAlias

Converter: TypeAlias = Callable[[str], Any]
"""Text to what `json.dumps` takes."""

_EPOCH_DAY: Final = date(1970, 1, 1)
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_MILLISECONDS_DIGITS_MAX: Final = 3
_ARRAY_TOKEN: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([{},])|([^{},"\\]+)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedType:
    """A domain (over a base type, which it may limit) or an array (of elements), by the catalogue's numbers."""

    base_oid: int = 0
    base_modifier: int = -1
    element_oid: int = 0


def converter(type_oid: int, modifier: int, derived: Mapping[int, DerivedType]) -> Converter:
    found = derived.get(type_oid)
    if found is None:
        return _converter(type_oid, modifier)
    if found.element_oid:
        element = converter(found.element_oid, modifier, derived)
        return lambda text: parse_array(text, element)
    return converter(found.base_oid, found.base_modifier, derived)


def _converter(type_oid: int, modifier: int) -> Converter:
    in_milliseconds = 0 <= modifier <= _MILLISECONDS_DIGITS_MAX
    match type_oid:
        case 1114 if in_milliseconds:
            return lambda text: _timestamp_us(text, divisor=1000)
        case 1083 if in_milliseconds:
            return lambda text: _time_us(text) // 1000
        case 1560 if modifier == 1:
            return lambda text: text == "1"
        case _:
            return _CONVERTERS.get(type_oid, str)


def parse_array(text: str, element: Converter) -> list[Any]:
    """`{1,NULL,"a b"}`, nested where it has more dimensions; bounds as in `[0:1]={…}` are left out."""
    open_lists: list[list[Any]] = [[]]
    for token in _ARRAY_TOKEN.finditer(text, text.index("{")):
        quoted, mark, bare = token.groups()
        if mark == "{":
            open_lists.append([])
        elif mark == "}":
            closed = open_lists.pop()
            open_lists[-1].append(closed)
        elif quoted is not None:
            open_lists[-1].append(element(_ESCAPED.sub(r"\1", quoted)))
        elif bare is not None:
            open_lists[-1].append(None if bare == "NULL" else element(bare))
    result: list[Any] = open_lists[0][0]
    return result


def _float(text: str) -> float | str:
    return text if text in ("NaN", "Infinity", "-Infinity") else float(text)


def _bytes(text: str) -> str:
    return b64encode(bytes.fromhex(text.removeprefix("\\x"))).decode()


def _money(text: str) -> str:
    return text.replace("$", "").replace(",", "")


def _date(text: str) -> int | str:
    try:
        return (date.fromisoformat(text) - _EPOCH_DAY).days
    except ValueError:
        return text


def _timestamp_us(text: str, *, divisor: int = 1) -> int | str:
    try:
        return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND // divisor
    except ValueError:
        return text


def _time_us(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0"))


def _zoned_timestamp(text: str) -> str:
    if not text.endswith("+00"):  # infinity, or a year before Christ
        return text
    return text.removesuffix("+00").replace(" ", "T") + "Z"


_CONVERTERS: Final[Mapping[int, Converter]] = {
    16: lambda text: text == "t",  # bool
    17: _bytes,  # bytea
    20: int,  # bigint
    21: int,  # smallint
    23: int,  # integer
    26: int,  # oid
    700: _float,  # real
    701: _float,  # double precision
    790: _money,
    1082: _date,
    1083: _time_us,  # time
    1114: _timestamp_us,  # timestamp
    1184: _zoned_timestamp,  # timestamp with time zone
}
