"""Ottla: a distributed message queue in Python that speaks the Kafka wire protocol.

`ottla.Producer`, `ottla.Consumer`, `ottla.Admin` and the rest of the SDK are here by name; the first use imports
them, so that a broker, which needs none of it, starts without librdkafka.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if not name.startswith("_"):
        import ottla.client as sdk

        if name in sdk.__all__:
            return getattr(sdk, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
