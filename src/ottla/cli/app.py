"""The command tree, and the one place where an expected failure becomes a line and an exit code."""

from typing import Annotated, Any

import confluent_kafka
import typer
from typer.core import TyperGroup

import ottla
from ottla.cli import (
    bench,
    cdc,
    cluster,
    consume,
    doctor,
    features,
    group,
    log_dump,
    pipeline,
    produce,
    server,
    topic,
    txn,
)
from ottla.cli.errors import Failure
from ottla.cli.options import AsJson, examples
from ottla.cli.output import complain, print_json
from ottla.client.text import c_text


class Boundary(TyperGroup):
    """The root group: outside of it there are no `Failure`s, inside of it all arguments are UTF-8."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for argument in args:
            try:
                c_text(argument, "the argument")
            except ValueError as error:
                raise typer.BadParameter(str(error)) from error
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Failure as failure:
            complain(failure.message)
            raise typer.Exit(failure.exit_code) from failure


app = typer.Typer(
    cls=Boundary,
    help="Ottla: a message queue that speaks the Kafka wire protocol. Works in front of Apache Kafka, too.",
    epilog=examples(
        ("a broker on this machine, in one command", "ottla up"),
        (
            "a topic, a record, and what is in it",
            "ottla topic create orders --partitions 3",
            "echo hello | ottla produce orders",
            "ottla consume orders",
        ),
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
SERVERS = "Run a broker"
RECORDS = "Records"
ADMINISTRATION = "Administration"

for name, command in (("up", server.up), ("serve", server.serve)):
    app.command(name, add_help_option=False, context_settings=server.PASS_ON, rich_help_panel=SERVERS)(command)
app.command("produce", epilog=produce.EXAMPLES, rich_help_panel=RECORDS)(produce.produce)
app.command("consume", epilog=consume.EXAMPLES, rich_help_panel=RECORDS)(consume.consume)
app.command("bench", epilog=bench.EXAMPLES, rich_help_panel=RECORDS)(bench.bench)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=RECORDS)
app.add_typer(cdc.app, name="cdc", rich_help_panel=RECORDS)
app.add_typer(topic.app, name="topic", rich_help_panel=ADMINISTRATION)
app.add_typer(group.app, name="group", rich_help_panel=ADMINISTRATION)
app.add_typer(txn.app, name="txn", rich_help_panel=ADMINISTRATION)
app.add_typer(cluster.cluster_app, name="cluster", rich_help_panel=ADMINISTRATION)
app.command("doctor", epilog=doctor.EXAMPLES, rich_help_panel=ADMINISTRATION)(doctor.doctor)
app.add_typer(features.app, name="features", rich_help_panel=ADMINISTRATION)
app.add_typer(log_dump.app, name="log", rich_help_panel=ADMINISTRATION)


@app.command(rich_help_panel=ADMINISTRATION)
def version(as_json: AsJson = False) -> None:
    """Print the version of Ottla and of the client under it."""
    versions = {"ottla": ottla.__version__, "librdkafka": confluent_kafka.libversion()[0]}
    if as_json:
        print_json(versions)
    else:
        print(f"ottla {versions['ottla']} (librdkafka {versions['librdkafka']})")


def _show_version(is_asked: bool) -> None:
    if is_asked:
        version()
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version)] = False,
) -> None:
    pass
