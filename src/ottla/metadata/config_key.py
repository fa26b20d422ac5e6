"""What one configuration key is: its type, default, check, documentation and how it may change.

The tables (`config_table_*.py`) are rows of `ConfigKey`; `configs.py` looks keys up and resolves values. Text goes in
and out exactly as Kafka's admin tools send and print it: `parse` turns text into a typed value or raises
`InvalidConfigValue` with the reason, `render` is its inverse. Numeric ids are those of DescribeConfigs.
"""

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None
Check: TypeAlias = Callable[[ConfigValue], str | None]
"""Says why a well-typed value is refused, or `None` when it is fine."""

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1


class ConfigType(IntEnum):
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from, strongest first within topics and brokers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class UpdateMode(Enum):
    """How a broker key may change while the node runs. We refuse to accept what we would not apply."""

    READ_ONLY = "read-only"
    LIVE = "live"


class InvalidConfigValue(Exception):
    """The text is no value of this key; the exception's text is the reason for the user."""


class ConfigKey(NamedTuple):
    name: str
    type: ConfigType
    default: ConfigValue
    documentation: str
    check: Check | None = None
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    internal: bool = False
    """Accepted by name, never listed: meant for tests and for us."""

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD


_WHOLE_NUMBER_RANGES: Final = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), INT_MAX),
    ConfigType.LONG: (-(2**63), LONG_MAX),
}


def parse(key: ConfigKey, text: str) -> ConfigValue:
    """The typed value of `text`, checked; raises `InvalidConfigValue` with one sentence a person can act on."""
    try:
        value = _convert(key.type, text.strip())
    except ValueError as error:
        raise InvalidConfigValue(f"Invalid value {_shown(key, text)} for configuration {key.name}: {error}") from None
    reason = key.check(value) if key.check is not None else None
    if reason is not None:
        raise InvalidConfigValue(f"Invalid value {_shown(key, text)} for configuration {key.name}: {reason}")
    return value


def render(value: ConfigValue) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def split_list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text.strip() else ()


def _shown(key: ConfigKey, text: str) -> str:
    return "[hidden]" if key.sensitive else text


def _convert(config_type: ConfigType, text: str) -> ConfigValue:
    match config_type:
        case ConfigType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise ValueError("expected true or false")
            return text.lower() == "true"
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return _whole_number(config_type, text)
        case ConfigType.DOUBLE:
            return _double(text)
        case ConfigType.LIST:
            return split_list(text)
        case _:
            return text


def _whole_number(config_type: ConfigType, text: str) -> int:
    # Java reads ASCII digits alone; Python's int() would also take "1_000" and other alphabets' digits.
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
        raise ValueError(f"not a whole number of type {config_type.name}")
    lowest, highest = _WHOLE_NUMBER_RANGES[config_type]
    number = int(text)
    if not lowest <= number <= highest:
        raise ValueError(f"outside the range of type {config_type.name}")
    return number


def _double(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("not a number") from None
    if number != number:
        raise ValueError("not a number")
    return number


# ---- checks ----


def at_least(minimum: float) -> Check:
    return lambda value: None if _number(value) >= minimum else f"must be at least {minimum}"


def between(minimum: float, maximum: float) -> Check:
    return lambda value: (
        None if minimum <= _number(value) <= maximum else f"must be between {minimum} and {maximum} (inclusive)"
    )


def between_or(minimum: int, maximum: int, other: int) -> Check:
    inside = between(minimum, maximum)

    def check(value: ConfigValue) -> str | None:
        reason = None if value == other else inside(value)
        return reason and f"{reason} or {other}"

    return check


def one_of(*allowed: str, ignore_case: bool = False) -> Check:
    """For strings and, item by item, for lists; a list names each item once."""
    known = {item.lower() for item in allowed} if ignore_case else set(allowed)

    def check(value: ConfigValue) -> str | None:
        items = value if isinstance(value, tuple) else (value,)
        for item in items:
            if (str(item).lower() if ignore_case else item) not in known:
                return f"{item!r} is none of {', '.join(allowed)}"
        return None if len(set(items)) == len(items) else "an item is named twice"

    return check


def _number(value: ConfigValue) -> float:
    assert isinstance(value, int | float)
    return value


# ---- rows of the tables ----


class _Row(Protocol):
    def __call__(
        self,
        name: str,
        default: ConfigValue,
        documentation: str,
        *,
        minimum: float | None = None,
        check: Check | None = None,
        live: bool = False,
        internal: bool = False,
    ) -> ConfigKey: ...


def _row_of(config_type: ConfigType) -> _Row:
    def row(
        name: str,
        default: ConfigValue,
        documentation: str,
        *,
        minimum: float | None = None,
        check: Check | None = None,
        live: bool = False,
        internal: bool = False,
    ) -> ConfigKey:
        if minimum is not None:
            check = at_least(minimum)
        mode = UpdateMode.LIVE if live else UpdateMode.READ_ONLY
        return ConfigKey(name, config_type, default, documentation, check, mode, internal)

    return row


flag: Final = _row_of(ConfigType.BOOLEAN)
text: Final = _row_of(ConfigType.STRING)
int16: Final = _row_of(ConfigType.SHORT)
int32: Final = _row_of(ConfigType.INT)
int64: Final = _row_of(ConfigType.LONG)
double: Final = _row_of(ConfigType.DOUBLE)
names: Final = _row_of(ConfigType.LIST)
java_class: Final = _row_of(ConfigType.CLASS)
secret: Final = _row_of(ConfigType.PASSWORD)
