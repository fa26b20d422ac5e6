"""`.kafka_cleanshutdown`: there when every log of the directory was closed cleanly, gone while the node runs.

It carries the broker's epoch, by which the controller tells a restart from a loss of unsynced data (KIP-966).
"""

import json
from posixpath import join
from typing import Final

from ottla.base.disk import Disk

FILE_NAME: Final = ".kafka_cleanshutdown"
_VERSION: Final = 0
NO_BROKER_EPOCH: Final = -1


def write_marker(disk: Disk, directory: str, broker_epoch: int) -> None:
    content = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.replace(join(directory, FILE_NAME), content.encode())


def take_marker(disk: Disk, directory: str) -> int | None:
    """The broker epoch of the last clean shutdown, or `None` after any other end. The marker is gone then: from here on
    a crash is a crash."""
    path = join(directory, FILE_NAME)
    if not disk.exists(path):
        return None
    data = disk.read(path)
    disk.remove(path)
    disk.sync_directory(directory)
    return _broker_epoch(data)


def _broker_epoch(data: bytes) -> int:
    """Older brokers left the file empty: clean, but the epoch is not known."""
    try:
        return int(json.loads(data)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH
