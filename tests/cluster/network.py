"""A network of this machine's own: each node in a network namespace, all on one bridge, where also the clients are.

A link is cut as cables are: silently. The sender is given a hardware address that nobody has, so its packets leave and
arrive nowhere, one way; who wants both ways cuts both. A slow link is a token bucket on the node's way out. It takes
root; a guardian removes everything when we are done, or killed.
"""

import itertools
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla.testing import Machine

CLIENTS: Final = 0  # Their place in the network; nodes have their ids.
PORT: Final = 9092
NETWORKS_MAX: Final = 200
NOBODY: Final = "02:00:00:00:00:01"
TOKEN_BUCKET: Final = ("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "burst", "16kb", "latency", "2s")
NO_BUCKET: Final = ("tc", "qdisc", "del", "dev", "eth0", "root")
# Of each process its own, and never the last one again: a client that a test has left behind goes on asking at addresses
# it knows, and would be the first one of another cluster there.
_numbers = itertools.count(os.getpid() * 31)
_GUARDIAN: Final = """
trap '' INT TERM
while read -r line; do :; done
bridge=$1; shift
ip link del "$bridge"
for place in "$@"; do ip link del "$place"; ip netns del "$place"; done
"""


class NoNetwork(Exception):
    """Namespaces cannot be made here."""


class Network:
    """Use `network()` to get one."""

    def __init__(self, number: int, node_ids: Iterable[int]) -> None:
        self.bridge = f"ottla{number}"
        self._prefix = f"198.18.{number}"
        self._node_ids = list(node_ids)
        self._cuts: set[tuple[int, int]] = set()
        self._slow: set[int] = set()

    def machine(self, node_id: int) -> Machine:
        return Machine(host=self.address(node_id), port=PORT, command_prefix=self._inside(node_id))

    def address(self, place: int) -> str:
        return f"{self._prefix}.{place + 1}"

    def _namespace(self, node_id: int) -> str:
        return f"{self.bridge}n{node_id}"

    def _inside(self, node_id: int) -> tuple[str, ...]:
        return ("nsenter", f"--net=/run/netns/{self._namespace(node_id)}")

    @property
    def places(self) -> list[str]:
        return [self._namespace(node_id) for node_id in self._node_ids]

    # -- build -------------------------------------------------------------------------------------------------------

    def build(self) -> None:
        _ip("addr", "add", f"{self.address(CLIENTS)}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        for node_id in self._node_ids:
            place = self._namespace(node_id)
            _ip("netns", "add", place)
            _ip("link", "add", place, "type", "veth", "peer", "name", "eth0", "netns", place)
            _ip("link", "set", place, "master", self.bridge, "up")
            _ip("-n", place, "addr", "add", f"{self.address(node_id)}/24", "dev", "eth0")
            _ip("-n", place, "link", "set", "eth0", "up")
            _ip("-n", place, "link", "set", "lo", "up")

    # -- harm --------------------------------------------------------------------------------------------------------

    def cut_one_way(self, sender: int, receiver: int) -> None:
        if (sender, receiver) not in self._cuts:
            self._neighbour("replace", sender, receiver, "lladdr", NOBODY, "nud", "permanent")
            self._cuts.add((sender, receiver))

    def cut(self, one: int, other: int) -> None:
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def isolate(self, node_id: int, *, also_from_clients: bool) -> None:
        for place in self.others(node_id) + ([CLIENTS] if also_from_clients else []):
            self.cut(node_id, place)

    def others(self, node_id: int) -> list[int]:
        return [other for other in self._node_ids if other != node_id]

    def slow_down(self, node_id: int, rate: str) -> None:
        """What the node sends is held back to `rate` ("1mbit")."""
        _run(*self._inside(node_id), *TOKEN_BUCKET, "rate", rate)
        self._slow.add(node_id)

    def heal(self) -> None:
        for sender, receiver in self._cuts:
            self._neighbour("del", sender, receiver)
        self._cuts.clear()
        for node_id in self._slow:
            _run(*self._inside(node_id), *NO_BUCKET)
        self._slow.clear()

    def _neighbour(self, verb: str, sender: int, receiver: int, *what: str) -> None:
        if sender == CLIENTS:
            _ip("neigh", verb, self.address(receiver), *what, "dev", self.bridge)
        else:
            _ip("-n", self._namespace(sender), "neigh", verb, self.address(receiver), *what, "dev", "eth0")


@contextmanager
def network(node_ids: Iterable[int]) -> Iterator[Network]:
    """Namespaces for these nodes; `NoNetwork` where they cannot be made."""
    if os.geteuid() != 0:
        raise NoNetwork("network namespaces take root")
    made = Network(_new_bridge(), node_ids)
    command = ["/bin/sh", "-c", _GUARDIAN, "ottla-network-guardian", made.bridge, *made.places]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ):
        made.build()
        yield made


def _new_bridge() -> int:
    """Making one succeeds once for each number: so runs beside each other do not meet."""
    failure: Exception | None = None
    for _ in range(NETWORKS_MAX):
        number = next(_numbers) % NETWORKS_MAX
        try:
            _ip("link", "add", f"ottla{number}", "type", "bridge")
            return number
        except NoNetwork as error:
            failure = error
    raise NoNetwork(f"no bridge can be made: {failure}")


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NoNetwork(f"{command[0]} is not installed") from error
    except subprocess.CalledProcessError as error:
        raise NoNetwork(f"{' '.join(command)}: {error.stderr.strip()}") from error
