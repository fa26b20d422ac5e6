"""Which topic names are legal, and which two names must not live side by side.

Kafka's rules: 1 to 249 characters of letters, digits, '.', '_' and '-', but neither '.' nor '..'. Names that differ
only in '.' and '_' would share a metric's name, so the second one is refused.
"""

import re
from typing import Final

from ottla.base.errors import ApiError, ErrorCode

TOPIC_NAME_LENGTH_MAX: Final = 249
METADATA_TOPIC: Final = "__cluster_metadata"
GROUP_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC, "__share_group_state"})

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION with the reason."""
    reason = _illegal(name)
    if reason is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def is_legal_topic_name(name: str) -> bool:
    return _illegal(name) is None


def collision_key(name: str) -> str | None:
    """Equal for names that collide; `None` for a name that cannot."""
    return name.replace(".", "_") if "." in name or "_" in name else None


def _illegal(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"it has {len(name)} characters, at most {TOPIC_NAME_LENGTH_MAX} are allowed"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' has a character other than ASCII letters, digits, '.', '_' and '-'"
    return None
