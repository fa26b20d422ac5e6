"""`listeners` and `advertised.listeners`: what to bind, and what clients are told."""

import logging
import re
import socket
from dataclasses import dataclass
from typing import Final

from ottla.broker.start import AdvertisedListener
from ottla.metadata.configs import BrokerConfig
from ottla.server.settings import PORT_MAX, SettingsError

logger = logging.getLogger(__name__)

_ADDRESS: Final = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)://(?P<host>\[[^\]]*\]|[^:\[\]/]*):(?P<port>-?\d+)")
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
PLAINTEXT: Final = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    name: str
    host: str
    port: int


def parse_addresses(setting: str, texts: tuple[str, ...]) -> list[Address]:
    addresses: list[Address] = []
    for text in texts:
        match = _ADDRESS.fullmatch(text.strip())
        if match is None:
            raise SettingsError(f"{setting}: {text!r} is not NAME://host:port, such as PLAINTEXT://localhost:9092")
        address = Address(name=match["name"].upper(), host=match["host"].strip("[]"), port=int(match["port"]))
        if not 0 <= address.port <= PORT_MAX:
            raise SettingsError(f"{setting}: {address.port} is no port: 0 to {PORT_MAX}")
        if any(address.name == other.name for other in addresses):
            raise SettingsError(f"{setting}: two listeners are named {address.name}")
        addresses.append(address)
    return addresses


def listeners_of(config: BrokerConfig) -> list[Address]:
    addresses = parse_addresses("listeners", config.listing("listeners"))
    mapping = config.string("listener.security.protocol.map") or ""
    protocols = dict(pair.strip().split(":", 1) for pair in mapping.split(",") if ":" in pair)
    for address in addresses:
        protocol = protocols.get(address.name, address.name)
        if protocol != PLAINTEXT:
            raise SettingsError(
                f"listener {address.name} needs {protocol}: only PLAINTEXT is served yet (docs/GAPS.md)"
            )
    return addresses


def advertised_of(config: BrokerConfig, bound: list[Address]) -> list[AdvertisedListener]:
    """What is advertised for each bound listener: as configured, else its own address; every address becomes our name."""
    configured = {
        one.name: one for one in parse_addresses("advertised.listeners", config.listing("advertised.listeners"))
    }
    for one in configured.values():
        if one.host in _EVERY_ADDRESS:
            raise SettingsError(
                f"advertised.listeners: clients cannot connect to {one.host!r}; name this machine's address"
            )
    unknown = set(configured) - {one.name for one in bound}
    if unknown:
        raise SettingsError(f"advertised.listeners: {', '.join(sorted(unknown))} is not one of the listeners")
    advertised = []
    for listener in bound:
        told = configured.get(listener.name, listener)
        host = _choose_name(listener) if told.host in _EVERY_ADDRESS else told.host
        advertised.append(AdvertisedListener(name=listener.name, host=host, port=told.port or listener.port))
    return advertised


def _choose_name(listener: Address) -> str:
    host = socket.gethostname()
    logger.info(
        f"listener {listener.name} is bound to every address and clients are told {host}:{listener.port}: if they know this "
        f"machine by another name, set advertised.listeners={listener.name}://<that name>:{listener.port}"
    )
    return host
