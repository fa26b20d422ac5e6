"""The mistake everybody makes once: a client reaches the broker, is told an address that means something else to it, and
fails with nothing but a time-out. We see both addresses, so we say it, once a listener, with the fix."""

import ipaddress
import logging

from ottla.broker.request import Peer

logger = logging.getLogger(__name__)


class AdvertisedAddresses:
    """Remembers which listeners were explained already."""

    def __init__(self) -> None:
        self._explained: set[str] = set()

    def check(self, peer: Peer, advertised_host: str, port: int) -> str | None:
        """The explanation, where there is something to explain for the first time; it is logged, too."""
        if peer.listener in self._explained or not is_loopback(advertised_host) or is_loopback(peer.host):
            return None
        self._explained.add(peer.listener)
        reached = f"[{peer.local_host}]" if ":" in peer.local_host else peer.local_host
        text = (
            f"client {peer.host} was told to connect to {advertised_host}:{port}, which is the client's own machine: "
            f"unless that forwards the port to here, set advertised.listeners={peer.listener}://"
            f"{reached or f'<a name of this machine that {peer.host} can reach>'}:{port}"
        )
        logger.warning(text)
        return text


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
