"""What is done of a long run, in a file: a run that is interrupted goes on where it was.

A line is a portion of seeds without a failure, under the digest of the code that ran it: of other code it says nothing.
"""

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

import ottla


class Portion(NamedTuple):
    """Some seeds of one scenario."""

    scenario: str
    first: int
    seed_count: int


class Outcome(NamedTuple):
    failures: list[tuple[int, str]]
    hits: dict[str, int]


class Notes:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._code = code_digest()

    def read(self) -> dict[Portion, Outcome]:
        """What is done already; failures are run again. The last line may be the half of one."""
        outcomes = {}
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            try:
                code, portion, hits = json.loads(line)
            except ValueError:
                continue
            if code == self._code:
                outcomes[Portion(*portion)] = Outcome([], hits)
        return outcomes

    def add(self, portion: Portion, outcome: Outcome) -> None:
        if not outcome.failures:
            with self._path.open("a") as file:
                file.write(json.dumps([self._code, portion, outcome.hits]) + "\n")

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def code_digest() -> str:
    """Of the broker and of the simulator."""
    digest = hashlib.blake2b(digest_size=8)
    for package in (Path(ottla.__file__).parent, Path(__file__).parent):
        for path in sorted(package.rglob("*.py")):
            digest.update(str(path.relative_to(package)).encode() + path.read_bytes())
    return digest.hexdigest()
