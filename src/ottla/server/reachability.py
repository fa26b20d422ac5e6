"""Tries the addresses that clients are told, from here, and says in one sentence what is wrong with one and how to mend it.

A name that does not resolve or a port on which nobody listens otherwise shows as a time-out in every client. It is a
warning, no refusal: a forwarded port may lead here though it cannot be used from here. Names may take seconds to resolve,
so a thread does it beside the serving; nobody waits for it.
"""

import logging
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ottla.broker.start import AdvertisedListener
from ottla.server.listeners import Address

logger = logging.getLogger(__name__)

CONNECT_SECONDS_MAX: Final = 3.0
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
_SOMEWHERE_ELSE: Final = ("192.0.2.1", 9)  # Reserved for documentation; nothing is sent there.


def start_reachability_check(bound: Sequence[Address], advertised: Sequence[AdvertisedListener]) -> None:
    """Tries what differs from what is bound; the usual node has nothing to try."""
    doubtful = [
        (listener, told)
        for listener, told in zip(bound, advertised, strict=True)
        if (listener.host, listener.port) != (told.host, told.port)
    ]
    if doubtful:
        threading.Thread(target=_check, args=(doubtful,), name="advertised addresses", daemon=True).start()


def _check(doubtful: Sequence[tuple[Address, AdvertisedListener]]) -> None:
    for listener, told in doubtful:
        text = explain_unreachable(listener, told)
        if text is not None:
            logger.warning(text)


def explain_unreachable(bound: Address, told: AdvertisedListener) -> str | None:
    """Blocking: what keeps clients from the address that they are told, as far as it shows from here."""
    mistake = f"clients of listener {told.name} are told to connect to {told.host}:{told.port}"
    try:
        socket.create_connection((told.host, told.port), timeout=CONNECT_SECONDS_MAX).close()
    except (socket.gaierror, UnicodeError):
        return (
            f"{mistake}, a name that does not resolve here: set advertised.listeners={told.name}://"
            f"<a name that clients can resolve, or {_own_address(bound)}>:{bound.port}"
        )
    except OSError as error:
        is_port_wrong = isinstance(error, ConnectionRefusedError) and told.port != bound.port
        host = told.host if is_port_wrong else f"<a name that leads here, or {_own_address(bound)}>"
        return (
            f"{mistake}, where nobody answers as seen from here ({error.strerror or error}): unless a forwarded port leads "
            f"from there to port {bound.port} of this machine, set "
            f"advertised.listeners={told.name}://{host}:{bound.port}"
        )
    return None


def _own_address(bound: Address) -> str:
    """The address that is listened on; of all of them, the one that this machine shows to others by sending from it."""
    if bound.host not in _EVERY_ADDRESS:
        return bound.host
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(_SOMEWHERE_ELSE)
        return str(sock.getsockname()[0])
    return "an address of this machine"
