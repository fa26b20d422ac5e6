"""`ottla log dump`: what is in a broker's files, Ottla's or Kafka's, read without a broker."""

import mmap
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from ottla.cli import segment_dump, sidecar_dump
from ottla.cli.dump import Column, Dump, Kind, dump_document, dump_table, first_rows
from ottla.cli.errors import Failure
from ottla.cli.options import AsJson, examples
from ottla.cli.output import counted, print_json, print_table, stdout
from ottla.cli.record_format import visible

app = typer.Typer(help="A broker's files on disk, without a broker.", no_args_is_help=True)

METADATA_TOPIC: Final = "__cluster_metadata"
OFFSET_CHECKPOINTS: Final = frozenset(
    {
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
    }
)
EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
TEXT_FILES: Final = {"meta.properties": "=", "partition.metadata": ":"}
WHOLE_TEXT_FILES: Final = frozenset({"quorum-state", ".kafka_cleanshutdown"})
SUFFIXES: Final = frozenset({".log", ".checkpoint", ".index", ".timeindex", ".snapshot", ".txnindex"})
SEGMENT_NAME: Final = re.compile(r"\d{20}.*|bootstrap")
PARTITION_NAME: Final = re.compile(r".+-\d+")
ROWS_SHOWN: Final = 1_000


@app.command(
    "dump",
    epilog=examples(
        ("every file of a partition", "ottla log dump ottla-data/orders-0"),
        ("the records in a segment", "ottla log dump ottla-data/orders-0/00000000000000000000.log --records"),
        ("what the controller decided", "ottla log dump ottla-data/__cluster_metadata-0 --records"),
    ),
)
def dump(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", exists=True, help="Files or partition directories.")],
    records: Annotated[bool, typer.Option("--records", "-r", help="Records instead of batches.")] = False,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=0, help=f"Rows of each file; 0: all. Default: {ROWS_SHOWN:,}, in JSON all."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show segments, indexes, snapshots and checkpoints as tables, and check them. Fails where one is damaged."""
    wanted = count if count is not None else 0 if as_json else ROWS_SHOWN
    damaged = []
    documents = []
    for path in files_of(paths):
        found = dump_of(path, records=records, rows_max=wanted or None)
        if found.trouble:
            damaged.append(str(path))
        if as_json:
            documents.append(dump_document(str(path), found))
        else:
            show(path, found)
    if as_json:
        print_json(documents)
    if damaged:
        raise Failure(f"damaged: {', '.join(damaged)}")


def files_of(paths: list[Path]) -> Iterator[Path]:
    """Files as named; of a directory those that a broker writes, and the directory itself where it holds partitions."""
    for path in paths:
        if path.is_file():
            yield path
            continue
        known = [each for each in sorted(path.iterdir()) if each.is_file() and is_known(each)]
        partitions = partition_directories(path)
        if not known and not partitions:
            raise Failure(f"{path} holds no file that a broker writes: name a partition directory such as orders-0")
        if partitions:
            yield path
        yield from known


def partition_directories(path: Path) -> list[Path]:
    return [each for each in sorted(path.iterdir()) if each.is_dir() and PARTITION_NAME.fullmatch(each.name)]


def dump_directory(path: Path) -> Dump:
    rows = []
    for directory in partition_directories(path):
        segments = sorted(each for each in directory.glob("*.log") if is_known(each))
        size_bytes = sum(each.stat().st_size for each in segments)
        rows.append((directory.name, len(segments), int(segments[0].stem) if segments else None, size_bytes))
    columns = (Column("partition", Kind.TEXT), Column("segments"), Column("first offset"), Column("size", Kind.SIZE))
    remark = counted(len(rows), "partition")
    return Dump(kind="log directory", columns=columns, rows=rows, remark=remark)


def is_known(path: Path) -> bool:
    names = OFFSET_CHECKPOINTS | TEXT_FILES.keys() | WHOLE_TEXT_FILES | {EPOCH_CHECKPOINT}
    return path.name in names or (path.suffix in SUFFIXES and SEGMENT_NAME.fullmatch(path.stem) is not None)


def dump_of(path: Path, *, records: bool, rows_max: int | None) -> Dump:
    try:
        if path.is_dir():
            return dump_directory(path)
        if path.suffix in (".log", ".checkpoint"):
            return dump_segment(path, records=records, rows_max=rows_max)
        whole = dump_sidecar(path, path.read_bytes())
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    rows, left_out = first_rows(iter(whole.rows), rows_max)
    return replace(whole, rows=rows, rows_left_out=left_out)


def dump_segment(path: Path, *, records: bool, rows_max: int | None) -> Dump:
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return Dump(kind="segment", remark="empty")
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if not records:
        return segment_dump.dump_batches(data, rows_max=rows_max)
    is_metadata = path.parent.name.startswith(METADATA_TOPIC) or path.suffix == ".checkpoint"
    return segment_dump.dump_records(data, is_metadata=is_metadata, rows_max=rows_max)


def dump_sidecar(path: Path, data: bytes) -> Dump:
    match path.suffix, path.name:
        case ".index", _:
            return sidecar_dump.dump_offset_index(data, base_offset_of(path))
        case ".timeindex", _:
            return sidecar_dump.dump_time_index(data, base_offset_of(path))
        case ".snapshot", _:
            return sidecar_dump.dump_snapshot(data)
        case ".txnindex", _:
            return sidecar_dump.dump_aborted(data)
        case _, name if name in OFFSET_CHECKPOINTS:
            return sidecar_dump.dump_checkpoint(data, columns=("topic", "partition", "offset"))
        case _, name if name == EPOCH_CHECKPOINT:
            return sidecar_dump.dump_checkpoint(data, columns=("leader epoch", "start offset"))
        case _, name if name in TEXT_FILES:
            return sidecar_dump.dump_properties(data, separator=TEXT_FILES[name])
        case _, name if name in WHOLE_TEXT_FILES:
            return Dump(kind="text", remark=visible(data))
        case _:
            raise Failure(f"{path} is no file that a broker writes: .log, .index, .timeindex, .snapshot, …")


def base_offset_of(path: Path) -> int:
    """Files of a segment are named by its first offset."""
    if not path.stem.isdigit():
        raise Failure(f"{path}: its name must be the segment's first offset, as in 00000000000000000000{path.suffix}")
    return int(path.stem)


def show(path: Path, dump: Dump) -> None:
    console = stdout()
    console.print(Text.assemble((str(path), "bold"), ("  " + dump.kind, "cyan")), soft_wrap=True)
    console.print(Text(f"  {dump.remark}", style="dim"))
    if dump.rows:
        print_table(dump_table(dump, width=console.width))
    if dump.rows_left_out:
        console.print(Text(f"  … {counted(dump.rows_left_out, 'more row')}: --count 0 shows all", style="dim"))
    if dump.trouble:
        console.print(Text(f"  {dump.trouble}", style="bold red"))
