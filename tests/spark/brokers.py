"""What a test knows of the broker it runs against: where it is."""

from dataclasses import dataclass
from typing import Protocol


class AnyBroker(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ForeignBroker:
    bootstrap_servers: str
