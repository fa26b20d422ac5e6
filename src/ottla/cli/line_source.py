"""Where `ottla produce` reads: files one after another, or standard input, each line parsed into a record."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from ottla.cli.errors import Failure
from ottla.cli.output import say
from ottla.cli.record_input import LineParser, OutgoingRecord

BYTES_PER_REPORT: Final = 64 * 1024  # A progress bar that hears of every line would be slower than the broker.


class LineSource:
    def __init__(self, files: Sequence[Path], parse: LineParser) -> None:
        self._files = files
        self._parse = parse

    @property
    def size_bytes(self) -> int | None:
        """What there is to read; None for standard input, which may never end."""
        return sum(path.stat().st_size for path in self._files) if self._files else None

    def records(self, *, on_bytes: Callable[[int], None]) -> Iterator[OutgoingRecord]:
        """A line that does not parse is a `Failure` that names it."""
        for name, stream in self._streams():
            unreported = 0
            for number, line in enumerate(stream, 1):
                try:
                    record = self._parse(line.removesuffix(b"\n").removesuffix(b"\r"))
                except ValueError as error:
                    raise Failure(f"{name}, line {number}: {error}") from error
                yield record
                unreported += len(line)
                if unreported >= BYTES_PER_REPORT:
                    on_bytes(unreported)
                    unreported = 0
            on_bytes(unreported)

    def _streams(self) -> Iterator[tuple[str, BinaryIO]]:
        if not self._files:
            if sys.stdin.isatty():
                say("one record a line; Ctrl-D ends")
            yield "standard input", sys.stdin.buffer
        for path in self._files:
            with path.open("rb") as stream:
                yield str(path), stream
