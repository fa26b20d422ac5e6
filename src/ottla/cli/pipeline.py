"""`ottla pipeline`: run, validate, list, status, stop, explain. What a pipeline is, docs/PIPELINES.md says.

Nothing here imports Spark but `run` and `explain --plan`: a file is checked in a fraction of a second, and a machine
without Spark can do it.
"""

import importlib.util
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from ottla.cli.errors import Failure
from ottla.cli.options import AsJson, examples, key_values
from ottla.cli.output import complain, counted, done, facts, plain, print_json, print_table, say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipelines.definition import Pipeline
    from ottla.spark.pipelines.runner import Runner
    from ottla.spark.pipelines.status_files import StateDirectory, Status

app = typer.Typer(
    help="Data pipelines on Spark: from topics, through SQL or Python, to somewhere.", no_args_is_help=True
)

INVALID: Final = 2
STOP_POLL_S: Final = 0.1

Files: TypeAlias = Annotated[
    list[Path], typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True, show_default=False)
]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
StatePath: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        envvar="OTTLA_PIPELINE_STATE",
        file_okay=False,
        help="Where status and checkpoints are kept. [default: ~/.ottla/pipelines]",
        show_default=False,
    ),
]


def state_directory(path: Path | None) -> "StateDirectory":
    from ottla.spark.pipelines.status_files import StateDirectory, default_directory

    return StateDirectory(path or default_directory(os.environ, Path.home()))


def need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise Failure("pipelines need Spark's packages: pip install 'ottla[spark]'")


def checked_pipelines(files: Sequence[Path]) -> "Sequence[Pipeline]":
    """Every problem of every file is told before the command ends with 2."""
    need("yaml")
    from ottla.spark.pipelines.checking import check_files

    checked = check_files(files, os.environ)
    for problem in checked.problems:
        complain(str(problem))
    if checked.problems:
        raise typer.Exit(INVALID)
    return checked.pipelines


# -- files -----------------------------------------------------------------------------------------------------------


@app.command(
    epilog=examples(
        ("is everything right?", "ottla pipeline validate orders.yaml"),
        ("for an editor or CI", "ottla pipeline validate pipelines/*.yaml --json"),
    )
)
def validate(files: Files, as_json: AsJson = False) -> None:
    """Check files without starting Spark: keys, types, choices, guarantees. Exit code 2 where something is wrong."""
    if not as_json:
        for pipeline in checked_pipelines(files):
            done(f"{pipeline.name}: {pipeline.file} is right")
        return
    need("yaml")
    from ottla.spark.pipelines.checking import check_files

    problems = check_files(files, os.environ).problems
    print_json(
        [
            {"file": str(each.file), "line": each.line, "column": each.column, "message": each.message}
            for each in problems
        ]
    )
    if problems:
        raise typer.Exit(INVALID)


@app.command(
    epilog=examples(
        ("what it does, and what it guarantees", "ottla pipeline explain orders.yaml"),
        ("with the plan that Spark makes of it", "ottla pipeline explain orders.yaml --plan"),
    )
)
def explain(
    files: Files,
    plan: Annotated[bool, typer.Option("--plan", help="Start Spark and show its logical plan as well.")] = False,
    state: StatePath = None,
    as_json: AsJson = False,
) -> None:
    """Tell in words what a pipeline reads, does, writes, guarantees and why, and where it keeps its offsets."""
    from ottla.spark.pipelines.explanation import explain as explanation

    pipelines = checked_pipelines(files)
    directory = state_directory(state)
    told = [list(explanation(pipeline, directory.checkpoint_of(pipeline))) for pipeline in pipelines]
    if plan:
        for pairs, text in zip(told, plans(pipelines, directory), strict=True):
            pairs.append(("plan", text))
    if as_json:
        print_json([dict(pairs) for pairs in told])
        return
    for pairs in told:
        print_table(facts([(name, plain(text)) for name, text in pairs]))


def plans(pipelines: "Sequence[Pipeline]", directory: "StateDirectory") -> list[str]:
    need("pyspark")
    driver = started(pipelines, "local[1]", {}, directory)
    try:
        return [planned(driver, pipeline, directory) for pipeline in pipelines]
    finally:
        driver.stop()


def planned(driver: "SparkSession", pipeline: "Pipeline", directory: "StateDirectory") -> str:
    from ottla.spark.pipelines.failures import failure_of
    from ottla.spark.pipelines.query import context_of, plan_of
    from ottla.spark.pipelines.session import pipeline_session

    session = pipeline_session(driver, pipeline, {})
    try:
        return plan_of(session, pipeline, context_of(pipeline, directory.checkpoint_of(pipeline)))
    except Exception as error:  # A step's own, or whatever Spark finds wrong with it.
        raise Failure(f"{pipeline.name}: {failure_of(error).reason}", exit_code=INVALID) from error


# -- running ---------------------------------------------------------------------------------------------------------


@app.command(
    epilog=examples(
        ("until Ctrl-C, on this machine", "ottla pipeline run orders.yaml"),
        ("what there is, then end: for cron", "ottla pipeline run orders.yaml --once"),
        ("several in one driver, on a cluster", "ottla pipeline run *.yaml --master spark://host:7077"),
        ("with Spark's web page", "ottla pipeline run orders.yaml --conf spark.ui.enabled=true"),
    )
)
def run(
    files: Files,
    master: Annotated[str, typer.Option("--master", metavar="URL", help="Where Spark runs.")] = "local[*]",
    once: Annotated[bool, typer.Option("--once", help="Take what there is, then end.")] = False,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="Spark's settings. Repeat for more.")
    ] = None,
    state: StatePath = None,
) -> None:
    """Run pipelines until they end or are stopped. Ctrl-C lets the micro-batch under way end; twice, it does not."""
    chosen = key_values(conf, "--conf")
    pipelines = checked_pipelines(files)
    need("pyspark")
    from ottla.cli.pipeline_view import watching
    from ottla.spark.pipelines.runner import Runner
    from ottla.spark.pipelines.status_files import AlreadyRunning, State

    driver = started(pipelines, master, chosen, state_directory(state))
    try:
        with watching() as view:
            runner = Runner(
                driver,
                pipelines,
                state_directory(state),
                until_now=once,
                conf=chosen,
                observe=view.observe,
                tell=view.tell,
            )
            with stopped_by_signals(runner):
                ended = runner.run()
    except AlreadyRunning as error:
        raise Failure(str(error)) from error
    finally:
        driver.stop()
    failed = [status.name for status in ended if status.state is State.FAILED]
    if failed:
        raise Failure(
            f"{counted(len(failed), 'pipeline')} failed: {', '.join(failed)}; "
            f"{state_directory(state).failure_file(failed[0])} has the details"
        )


def started(
    pipelines: "Sequence[Pipeline]", master: str, conf: dict[str, str], directory: "StateDirectory"
) -> "SparkSession":
    from ottla.spark.pipelines.session import CannotStart, ConflictingConf, start_driver

    try:
        return start_driver(pipelines, master=master, conf=conf, log=directory.spark_log)
    except ConflictingConf as error:
        raise Failure(str(error), exit_code=INVALID) from error
    except CannotStart as error:
        raise Failure(str(error)) from error


@contextmanager
def stopped_by_signals(runner: "Runner") -> Iterator[None]:
    """PySpark's own handler of SIGINT, which would cancel jobs, has no say meanwhile."""
    before = {
        number: signal.signal(number, lambda *_: runner.ask_to_stop()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@app.command(
    epilog=examples(
        ("let the micro-batch under way end", "ottla pipeline stop orders"),
        ("do not wait for it", "ottla pipeline stop orders --now"),
    )
)
def stop(
    name: Name,
    now: Annotated[bool, typer.Option("--now", help="Break the micro-batch off; the next run does it again.")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait until it has stopped.")
    ] = 60.0,
    state: StatePath = None,
    as_json: AsJson = False,
) -> None:
    """Stop a pipeline that runs on this machine, once its micro-batch has ended."""
    directory = state_directory(state)
    status = running(directory, name)
    directory.ask_to_stop(name, at_once=now)
    deadline_s = time.monotonic() + timeout_s
    while not status.state.is_over and not status.is_gone:
        if time.monotonic() > deadline_s:
            raise Failure(f"{name} is {status.state} still: its micro-batch takes long; --now does not wait for it")
        time.sleep(STOP_POLL_S)
        status = directory.status(name) or status
    if as_json:
        print_json(document(status))
    else:
        done(f"{name}: {shown_state(status)}")


def running(directory: "StateDirectory", name: str) -> "Status":
    status = known(directory, name)
    if status.state.is_over or status.is_gone:
        raise Failure(f"{name} does not run: it is {shown_state(status)}")
    return status


def known(directory: "StateDirectory", name: str) -> "Status":
    status = directory.status(name)
    if status is None:
        raise Failure(f"there is no pipeline {name}: `ottla pipeline list` shows what there is")
    return status


# -- status ----------------------------------------------------------------------------------------------------------


@app.command("list", epilog=examples(("what runs here, and what ran", "ottla pipeline list")))
def list_pipelines(state: StatePath = None, as_json: AsJson = False) -> None:
    """List the pipelines of the state directory with their files and how they are."""
    from ottla.cli.pipeline_view import listing_table

    statuses = state_directory(state).statuses()
    if as_json:
        print_json([document(status) for status in statuses])
    elif not statuses:
        say("no pipelines yet: `ottla pipeline run FILE` starts one")
    else:
        print_table(listing_table(statuses))


@app.command(
    epilog=examples(
        ("how all of them do", "ottla pipeline status"),
        ("for an alert", "ottla pipeline status orders --json | jq '.[0].lag'"),
    )
)
def status(
    name: Annotated[str | None, typer.Argument(metavar="NAME", show_default=False)] = None,
    state: StatePath = None,
    as_json: AsJson = False,
) -> None:
    """Show state, micro-batch, rows, lag and the last failure of the pipelines of the state directory."""
    from ottla.cli.pipeline_view import status_view, statuses_table

    directory = state_directory(state)
    statuses = directory.statuses() if name is None else [known(directory, name)]
    if as_json:
        print_json([document(status) for status in statuses])
    elif name is not None:
        print_table(status_view(statuses[0]))
    elif not statuses:
        say("no pipelines yet: `ottla pipeline run FILE` starts one")
    else:
        print_table(statuses_table(statuses))


def document(status: "Status") -> dict[str, Any]:
    return {**asdict(status), "state": shown_state(status)}


def shown_state(status: "Status") -> str:
    return "gone" if status.is_gone else status.state
