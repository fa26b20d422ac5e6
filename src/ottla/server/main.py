"""`ottla up` and `ottla serve`: arguments in, a running node, an exit code out. Imports only what serving needs."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence

from ottla import __version__
from ottla.metadata.configs import BrokerConfig
from ottla.server.settings import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    PORT_MAX,
    SettingsError,
    settings_of_serve,
    settings_of_up,
)

USAGE_ERROR = 2
NODES_MAX = 9


def main(argv: Sequence[str]) -> int:
    match list(argv[:1]):
        case ["up"]:
            return run_up(argv[1:])
        case ["serve"]:
            return run_serve(argv[1:])
        case _:
            print("usage: python -m ottla.server up|serve …", file=sys.stderr)
            return USAGE_ERROR


def run_up(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="ottla up",
        description="Start one node: a Kafka-compatible broker with nothing to configure.",
        epilog="examples:\n  ottla up\n  ottla up --port 9093 --data /var/lib/ottla\n  ottla up --nodes 3\n"
        "  ottla up --config num.partitions=3",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data", default="ottla-data", metavar="DIR", help="where the data lives (default: ./ottla-data)"
    )
    parser.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help=f"port to listen on (default: {DEFAULT_PORT}; 0: a free one)"
    )
    parser.add_argument(
        "--host", default=DEFAULT_HOST, help="address to listen on (default: localhost, this machine alone)"
    )
    parser.add_argument(
        "--nodes",
        type=_node_count,
        default=1,
        metavar="N",
        help="a cluster of so many nodes on this machine, at --port and the ports behind it (default: 1)",
    )
    _add_common(parser)
    arguments = parser.parse_args(argv)
    if arguments.nodes > 1:
        from ottla.server.local_cluster import run_local_cluster

        return run_local_cluster(
            arguments.nodes,
            data=arguments.data,
            host=arguments.host,
            port=arguments.port,
            config=arguments.config,
            log_level=arguments.log_level,
        )
    return _run(
        arguments,
        lambda overrides: settings_of_up(
            data=arguments.data, host=arguments.host, port=arguments.port, overrides=overrides, environment=os.environ
        ),
    )


def run_serve(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="ottla serve",
        description="Start one node from a TOML file and the environment, with Kafka's names for every setting.",
        epilog='example file:\n  node.id = 1\n  listeners = "PLAINTEXT://localhost:9092"\n  log.dirs = ["/var/lib/ottla"]',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="settings in TOML (default: the environment alone)")
    _add_common(parser)
    arguments = parser.parse_args(argv)
    return _run(
        arguments,
        lambda overrides: settings_of_serve(arguments.file, overrides=overrides, environment=os.environ),
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", action="append", default=[], metavar="NAME=VALUE", help="any broker setting by Kafka's name"
    )
    parser.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"ottla {__version__}")


def _run(arguments: argparse.Namespace, settings: Callable[[dict[str, str]], BrokerConfig]) -> int:
    logging.basicConfig(
        level=arguments.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        overrides = dict(_split(pair) for pair in arguments.config)
        config = settings(overrides)
    except SettingsError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return USAGE_ERROR
    from ottla.server.process import run_node  # After the settings: a mistake in them is told at once.

    return run_node(config, ready_fd=arguments.ready_fd)


def _node_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= NODES_MAX:
        raise argparse.ArgumentTypeError(f"{text}: 1 to {NODES_MAX} nodes")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is no port: 0 to {PORT_MAX}")
    return int(text)


def _split(pair: str) -> tuple[str, str]:
    name, separator, value = pair.partition("=")
    if not separator or not name:
        raise SettingsError(f"--config {pair}: write it as name=value")
    return name, value
