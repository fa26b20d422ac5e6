"""The command tree as a whole: help, completion, usage errors, exit codes."""

import json
import socket

import pytest

import ottla
from ottla.cli import app as app_module
from tests.unit.cli.conftest import Run

CLUSTER = [
    ("cluster", "status"),
    ("cluster", "brokers"),
    ("cluster", "quorum"),
    ("cluster", "add"),
    ("cluster", "decommission"),
    ("cluster", "rebalance"),
    ("cluster", "reassign", "plan"),
    ("cluster", "reassign", "execute"),
    ("cluster", "reassign", "verify"),
    ("cluster", "reassign", "cancel"),
    ("cluster", "reassign", "throttle"),
    ("cluster", "reassign", "list"),
]
COMMANDS = [
    ("produce",),
    ("consume",),
    ("bench",),
    ("topic", "create"),
    ("topic", "list"),
    ("topic", "describe"),
    ("topic", "alter"),
    ("topic", "delete"),
    ("topic", "config"),
    ("cluster", "describe"),
    *CLUSTER,
    ("doctor",),
    ("features", "describe"),
    ("log", "dump"),
]
CONNECTING = [
    ("produce", "t"),
    ("consume", "t"),
    ("bench",),
    ("topic", "create", "t"),
    ("topic", "list"),
    ("topic", "describe", "t"),
    ("topic", "alter", "t", "-p", "2"),
    ("topic", "delete", "t"),
    ("topic", "config", "t"),
    ("topic", "config", "t", "--set", "a=b"),
    ("cluster", "describe"),
    ("cluster", "status"),
    ("cluster", "brokers"),
    ("cluster", "quorum"),
    ("cluster", "add"),
    ("cluster", "decommission", "1"),
    ("cluster", "rebalance"),
    ("cluster", "reassign", "plan", "--replicas", "3"),
    ("cluster", "reassign", "cancel", "--all"),
    ("cluster", "reassign", "throttle", "none"),
    ("cluster", "reassign", "list"),
    ("doctor",),
    ("features", "describe"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_ends_with_examples_and_fits_100_columns(run: Run, command: tuple[str, ...]) -> None:
    for option in ("--help", "-h"):
        result = run(*command, option)
        assert result.exit_code == 0
        assert f"Usage: ottla {' '.join(command)}" in result.stdout
        assert "Examples" in result.stdout
        assert "--json" in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 100


def test_the_root_lists_every_command(run: Run) -> None:
    shown = run("--help").stdout
    for name in (
        "up",
        "serve",
        "produce",
        "consume",
        "bench",
        "topic",
        "cluster",
        "doctor",
        "features",
        "log",
        "version",
    ):
        assert f"│ {name} " in shown
    assert "--install-completion" in shown


@pytest.mark.parametrize("command", CONNECTING, ids=" ".join)
def test_without_a_broker_every_command_says_so_in_a_line(run: Run, command: tuple[str, ...]) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{held.getsockname()[1]}"
        result = run(*command, "-b", servers, input="")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr == f"error: no broker at {servers}: start one with `ottla up`\n"


def test_the_environment_names_the_cluster(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", "no-such-host.invalid:1234")
    result = run("topic", "list")
    assert result.exit_code == 3
    assert "no broker at no-such-host.invalid:1234" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("tpoic", "list"),
        ("topic", "create"),
        ("topic", "create", "t", "--partitions", "0"),
        ("topic", "create", "t", "--config", "x"),
        ("topic", "alter", "t"),
        ("topic", "list", "-b", "host:"),
        ("topic", "config", "t", "a.key", "--set", "b=c"),
        ("consume", "t", "--group", "g", "--tail", "3"),
        ("consume", "t", "--group", "g", "--from", "42"),
        ("group", "reset", "g"),
        ("group", "reset", "g", "--to-earliest", "--to-latest"),
        ("group", "reset", "g", "--by-duration", "soon"),
        ("group", "describe", "g", "--watch", "1", "--json"),
        ("txn", "abort"),
        ("txn", "abort", "--partition", "orders:0"),
        ("txn", "list", "--longer-than", "ever"),
        ("consume", "t", "--from", "soon"),
        ("consume", "t", "--format", "yaml"),
        ("consume", "t", "--json", "--format", "hex"),
        ("bench", "--only", "consume"),
        ("cluster", "status", "--watch", "1", "--json"),
        ("cluster", "decommission", "one"),
        ("cluster", "rebalance", "--isolate-leader", "orders"),
        ("cluster", "rebalance", "--throttle", "fast"),
        ("cluster", "reassign", "plan"),
        ("cluster", "reassign", "plan", "--replicas", "3", "--brokers", "1"),
        ("cluster", "reassign", "plan", "--brokers", "1,x"),
        ("cluster", "reassign", "execute"),
        ("cluster", "reassign", "cancel"),
        ("cluster", "reassign", "throttle", "0"),
        ("log", "dump"),
    ],
    ids=" ".join,
)
def test_what_was_typed_wrong_is_a_usage_error(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage: ottla" in result.stderr


def test_a_mistyped_command_gets_a_suggestion(run: Run) -> None:
    assert "Did you mean 'topic'" in run("tpoic").stderr


def test_the_version_for_people_and_for_scripts(run: Run) -> None:
    assert run("version").stdout.startswith(f"ottla {ottla.__version__} (librdkafka ")
    assert run("--version").stdout == run("version").stdout
    assert json.loads(run("version", "--json").stdout)["ottla"] == ottla.__version__


def test_an_interrupted_command_is_quiet_and_exits_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app_module.confluent_kafka, "libversion", interrupted)
    result = run("version")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "command",
    [
        ["topic", "create", "t", "--partitions", "100001"],
        ["topic", "create", "t", "--replication-factor", "10001"],
        ["topic", "alter", "t", "--partitions", "100001"],
        ["topic", "delete", "\udcff", "--yes"],
        ["group", "describe", "\udcff"],
        ["group", "reset", "g", "--to-timestamp", "@99999999999999999999"],
        ["group", "reset", "g", "--by-duration", "soon"],
        ["consume", "t", "--from", "@99999999999999999999"],
        ["consume", "t", "--partition", "3000000000"],
        ["consume", "t", "--count", "99999999999999999999"],
    ],
)
def test_what_the_protocol_cannot_carry_is_a_usage_error(run: Run, command: list[str]) -> None:
    assert run(*command, "-b", "127.0.0.1:1").exit_code == 2
