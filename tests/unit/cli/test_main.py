"""The serving path stays free of the command line."""

import subprocess
import sys

import pytest

SERVE = """
import sys
sys.argv = ["ottla", *{arguments!r}]
from ottla.cli.main import main
try:
    main()
except SystemExit as leaving:
    heavy = {{"typer", "rich", "click", "confluent_kafka"}} & set(sys.modules)
    print("exit", leaving.code, "imported", sorted(heavy))
"""


def served(*arguments: str) -> str:
    program = [sys.executable, "-c", SERVE.format(arguments=arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("command", ["up", "serve"])
def test_a_broker_starts_without_typer_rich_and_librdkafka(command: str) -> None:
    shown = served(command, "--help")
    assert f"usage: ottla {command}" in shown
    assert shown.endswith("exit 0 imported []\n")


def test_a_wrong_option_of_a_broker_is_a_usage_error() -> None:
    assert served("up", "--no-such-option").endswith("exit 2 imported []\n")


def test_other_commands_go_through_the_command_line() -> None:
    shown = served("version")
    assert shown.startswith("ottla ")
    assert "'typer'" in shown
