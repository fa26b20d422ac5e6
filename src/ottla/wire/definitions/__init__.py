"""Every message of Kafka 4.2, down to the versions Kafka 4.0 still speaks (KIP-896), in a text form of our own.

One module per family, each a single text; `ottla.wire.notation` explains the form. Nothing is parsed here: the texts
are only cut into one block per message, so that a process pays for the messages it uses.
"""

from functools import cache
from importlib import import_module
from typing import Final

FAMILIES: Final = (
    "headers",
    "discovery",
    "records",
    "topics",
    "configs",
    "log_dirs",
    "groups",
    "modern_groups",
    "share_groups",
    "transactions",
    "security",
    "quorum",
    "cluster",
    "telemetry",
    "control_records",
    "metadata_records",
    "group_records",
    "modern_group_records",
    "state_records",
)


@cache
def texts() -> dict[str, str]:
    """The definition of each message by its name."""
    blocks: dict[str, str] = {}
    for family in FAMILIES:
        text: str = import_module(f"{__name__}.{family}").MESSAGES
        for block in text.strip().split("\n\n"):
            blocks[block[: block.index(":")]] = block
    return blocks


def headings() -> list[str]:
    """The first line of each definition."""
    return [block.partition("\n")[0] for block in texts().values()]
