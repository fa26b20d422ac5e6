"""What a JSON value becomes, by the type its schema gives it; anything else is a `ValueError` that says where and why.

Strict, because a value that is quietly made null or zero is found in a report months later: a number is no string, 1.5
is no int. Times are ISO 8601, taken for UTC where they name no zone; binary is base64, as in Spark's `from_json`.
"""

import base64
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

Converter = Callable[[Any], Any]

# Not float32, which makes infinity of what is too large; not dates, which are numbers to it.
_KNOWN_TO_ARROW: Final = (types.is_boolean, types.is_integer, types.is_float64, types.is_string, types.is_decimal128)
_JSON_NAMES: Final = {bool: "a boolean", str: "a string", dict: "an object", list: "an array"}


def is_known_to_arrow(arrow_type: pa.DataType) -> bool:
    """Whether Arrow's own JSON reader takes from a value what `converter_of` does."""
    if types.is_struct(arrow_type):
        return all(is_known_to_arrow(field.type) for field in arrow_type)
    if types.is_list(arrow_type):
        return is_known_to_arrow(arrow_type.value_type)
    if types.is_timestamp(arrow_type):
        return arrow_type.tz is not None  # Without, it would take the zone off a time that has one.
    return any(is_kind(arrow_type) for is_kind in _KNOWN_TO_ARROW)


def converter_of(arrow_type: pa.DataType) -> Converter:
    """None, JSON's null, stays None."""
    convert = _converter_of_values(arrow_type)
    return lambda value: None if value is None else convert(value)


def _converter_of_values(arrow_type: pa.DataType) -> Converter:
    if types.is_struct(arrow_type):
        return _struct(arrow_type)
    if types.is_list(arrow_type):
        return _list(arrow_type)
    if types.is_map(arrow_type):
        return _map(arrow_type)
    if types.is_integer(arrow_type):
        return _integer(arrow_type)
    if types.is_decimal(arrow_type):
        return _decimal(arrow_type)
    if types.is_timestamp(arrow_type):
        return _timestamp if arrow_type.tz else _timestamp_without_zone
    for is_kind, convert in _SIMPLE:
        if is_kind(arrow_type):
            return convert
    raise ValueError(f"JSON cannot be read as {arrow_type}")


def _struct(arrow_type: pa.StructType) -> Converter:
    converters = {field.name: converter_of(field.type) for field in arrow_type}

    def convert(value: Any) -> dict[str, Any]:
        _expect(value, dict)
        return {name: _at(name, convert, value.get(name)) for name, convert in converters.items()}

    return convert


def _list(arrow_type: pa.ListType) -> Converter:
    convert_element = converter_of(arrow_type.value_type)

    def convert(value: Any) -> list[Any]:
        _expect(value, list)
        return [_at(str(index), convert_element, element) for index, element in enumerate(value)]

    return convert


def _map(arrow_type: pa.MapType) -> Converter:
    if not types.is_string(arrow_type.key_type):
        raise ValueError("the keys of a map are strings in JSON: map<string, …>")
    convert_item = converter_of(arrow_type.item_type)

    def convert(value: Any) -> list[tuple[str, Any]]:
        _expect(value, dict)
        return [(_string(key), _at(key, convert_item, item)) for key, item in value.items()]

    return convert


def _at(name: str, convert: Converter, value: Any) -> Any:
    try:
        return convert(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _integer(arrow_type: pa.DataType) -> Converter:
    limit = 1 << arrow_type.bit_width - 1

    def convert(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
            raise ValueError(f"{_shown(value)} is no whole number of {arrow_type.bit_width} bits")
        return value

    return convert


def _decimal(arrow_type: pa.Decimal128Type) -> Converter:
    step = Decimal(1).scaleb(-arrow_type.scale)
    limit = Decimal(1).scaleb(arrow_type.precision - arrow_type.scale)

    def convert(value: Any) -> Decimal:
        """Rounded to the scale, as Spark does; a string is taken, too, because many write decimals so."""
        if not isinstance(value, int | Decimal | str) or isinstance(value, bool):
            raise ValueError(f"{_shown(value)} is no decimal number")
        try:
            number = Decimal(value).quantize(step, ROUND_HALF_UP)
        except InvalidOperation:
            raise ValueError(f"{_shown(value)} is no decimal({arrow_type.precision},{arrow_type.scale})") from None
        if not abs(number) < limit:
            raise ValueError(f"{_shown(value)} is too large for decimal({arrow_type.precision},{arrow_type.scale})")
        return number

    return convert


def _double(value: Any) -> float:
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        raise ValueError(f"{_shown(value)} is no number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise ValueError(f"{_shown(value)} is too large for a double")
    return number


def _boolean(value: Any) -> bool:
    _expect(value, bool)
    return bool(value)


def _string(value: Any) -> str:
    _expect(value, str)
    value.encode()  # Half a surrogate pair can be escaped in JSON, and is no text.
    return str(value)


def _binary(value: Any) -> bytes:
    _expect(value, str)
    return base64.b64decode(value, validate=True)


def _date(value: Any) -> date:
    _expect(value, str)
    return date.fromisoformat(value)


def _timestamp(value: Any) -> datetime:
    _expect(value, str)
    parsed = datetime.fromisoformat(value)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _timestamp_without_zone(value: Any) -> datetime:
    _expect(value, str)
    parsed = datetime.fromisoformat(value)
    if parsed.tzinfo:
        raise ValueError(f"{_shown(value)} names a time zone, which timestamp_ntz has not")
    return parsed


def _expect(value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{_shown(value)} is not {_JSON_NAMES[kind]}")


def _shown(value: Any) -> str:
    """Kinds, not contents, of what may be large or secret."""
    match value:
        case bool() | int() | Decimal():
            return f"{value!s:.40}"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


_SIMPLE: Final = (
    (types.is_boolean, _boolean),
    (types.is_floating, _double),
    (types.is_string, _string),
    (types.is_binary, _binary),
    (types.is_date, _date),
)
