"""Kafka's command-line tools as the tests call them: a tool's name, its arguments, what it printed."""

from dataclasses import dataclass
from pathlib import Path

from tests.conformance.client import Client

PACKAGES = {
    "ConfigCommand": "kafka.admin.",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer.",
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group.",
    "ReassignPartitionsCommand": "org.apache.kafka.tools.reassign.",
}
DEFAULT_PACKAGE = "org.apache.kafka.tools."


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Tools:
    def __init__(self, driver: Client, bootstrap: str) -> None:
        self._driver = driver
        self.bootstrap = bootstrap

    def attempt(self, tool: str, *arguments: str | Path, stdin: str = "") -> Printed:
        name = PACKAGES.get(tool, DEFAULT_PACKAGE) + tool
        typed = [str(argument) for argument in arguments]
        return Printed(**self._driver.call("tool", tool=name, arguments=typed, stdin=stdin))

    def run(self, tool: str, *arguments: str | Path, stdin: str = "") -> Printed:
        """A run that must end well."""
        printed = self.attempt(tool, *arguments, stdin=stdin)
        assert printed.status == 0, f"{tool} ended with {printed.status}:\n{printed.out}\n{printed.err}"
        return printed

    def ask(self, tool: str, *arguments: str | Path, stdin: str = "") -> Printed:
        """A run that must end well, of a tool that talks to the broker."""
        return self.run(tool, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin)

    def attempt_ask(self, tool: str, *arguments: str) -> Printed:
        return self.attempt(tool, "--bootstrap-server", self.bootstrap, *arguments)

    def dump(self, file: Path, *options: str) -> Printed:
        return self.run("DumpLogSegments", "--files", file, *options)
