"""The group words of kcat's driver: a member is a running `kcat -G`, which prints records and names its partitions.

kcat commits by itself alone, and cannot ask for what is committed.
"""

import re
import subprocess
import threading
from collections.abc import Callable
from typing import IO, Any

from tests.conformance.drivers.loop import UNKNOWN_CODE, KafkaRefusal
from tests.conformance.drivers.members import Journal, Partition

SETTING_NAMES = {
    "client_id": "client.id",
    "instance": "group.instance.id",
    "session_ms": "session.timeout.ms",
    "heartbeat_ms": "heartbeat.interval.ms",
    "poll_interval_ms": "max.poll.interval.ms",
    "auto_commit": "enable.auto.commit",
    "auto_commit_ms": "auto.commit.interval.ms",
    "metadata_ms": "topic.metadata.refresh.interval.ms",
    "reset": "auto.offset.reset",
}
ASSIGNORS = {"range": "range", "roundrobin": "roundrobin", "cooperative": "cooperative-sticky"}
# "… rebalanced (memberid m): assigned: t [0]", or "… rebalanced: incremental revoke of 1 partition(s) (memberid m…): t [0]"
REBALANCED = re.compile(r"% Group \S+ rebalanced\b.*(assigned|revoked|assignment|revoke)\b(.*)")
PARTITION = re.compile(r"(\S+) \[(\d+)\]")
LEAVING_WAIT_S = 20


class Member:
    def __init__(self, command: list[str], code_named_in: Callable[[str], int]) -> None:
        self.journal = Journal(lambda _: UNKNOWN_CODE)
        self._code_named_in = code_named_in
        self._owned: set[Partition] = set()
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        threading.Thread(target=self._read_records, args=(self._process.stdout,), daemon=True).start()
        threading.Thread(target=self._read_remarks, args=(self._process.stderr,), daemon=True).start()

    def _read_records(self, printed: IO[str]) -> None:
        for line in printed:
            topic, partition, offset, value = line.rstrip("\n").split(" ", 3)
            self.journal.read(topic, int(partition), int(offset), value.encode())

    def _read_remarks(self, said: IO[str]) -> None:
        for line in said:
            if (rebalanced := REBALANCED.match(line)) is not None:
                partitions = [(topic, int(index)) for topic, index in PARTITION.findall(rebalanced[2])]
                self._on_rebalance("assigned" if rebalanced[1].startswith("assign") else "revoked", partitions)
            elif "ERROR" in line:
                self.journal.failed(KafkaRefusal(self._code_named_in(line), line.strip()))

    def _on_rebalance(self, kind: str, partitions: list[Partition]) -> None:
        self._owned = self._owned.union(partitions) if kind == "assigned" else self._owned.difference(partitions)
        self.journal.told(kind, partitions)

    def watch(self) -> dict[str, Any]:
        return {**self.journal.news(), "owned": sorted(self._owned), "generation": None}

    def leave(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(LEAVING_WAIT_S)
        finally:
            self._process.kill()


class Groups:
    def __init__(self, program: str, bootstrap: str, code_named_in: Callable[[str], int]) -> None:
        self._program = program
        self._bootstrap = bootstrap
        self._code_named_in = code_named_in
        self._members: dict[str, Member] = {}

    def operations(self) -> dict[str, Callable[..., Any]]:
        return {"join": self.join, "watch": self.watch, "leave": self.leave}

    def join(self, member: str, group: str, topics: list[str], **settings: Any) -> None:
        named = {SETTING_NAMES[name]: value for name, value in settings.items() if name in SETTING_NAMES}
        if "assignor" in settings:
            named["partition.assignment.strategy"] = ASSIGNORS[settings["assignor"]]
        command = [self._program, "-b", settings.get("bootstrap", self._bootstrap), "-u", "-f", "%t %p %o %s\n"]
        for name, value in named.items():
            command += ["-X", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
        self._members[member] = Member([*command, "-G", group, *topics], self._code_named_in)

    def watch(self, member: str) -> dict[str, Any]:
        return self._members[member].watch()

    def leave(self, member: str) -> None:
        self._members.pop(member).leave()
