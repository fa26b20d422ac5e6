"""A PostgreSQL table as a sink: rows are upserted by their key, so that writing them again changes nothing.

The key is the columns given, or topic, partition and offset where the rows still have them. Without either, one task
inserts a micro-batch in one transaction that also stores the batch's number. `jdbc_rows` does the work of the tasks.

Rows that share a key: with `orderBy`, the one with the greatest value stays, in a micro-batch and against what is stored;
without, the last that a task sees. A deleted row leaves no trace, so an older one that comes after the deletion comes back.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.spark.pipelines.contract import Guarantee, PipelineContext, Promise, Setting, Settings, Sink, Wrong
from ottla.spark.pipelines.postgres import SERVER_SETTINGS, Server, wrong_url
from ottla.spark.pipelines.sinks.jdbc_rows import MARKER_TABLE, OP_COLUMN, VALUE_COLUMN, TargetTable
from ottla.spark.pipelines.sinks.micro_batch import DoesNotFit, in_tasks, query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

RECORD_KEY: Final = ("topic", "partition", "offset")


class JdbcSink(Sink):
    name = "jdbc"
    settings = (
        *SERVER_SETTINGS,
        Setting(name="table", kind=str, is_required=True, doc="the table, such as orders or shop.orders"),
        Setting(name="keys", kind=list, default=[], doc="the columns of a unique key to upsert by"),
        Setting(name="orderBy", kind=str, doc="of rows with the same key, the one with the greatest value here stays"),
        Setting(
            name="deletes",
            kind=bool,
            default=False,
            doc="op = 'd' (op is not stored), or else a null value, deletes the row",
        ),
        Setting(
            name="createTable", kind=bool, default=False, doc="make the table from the rows' columns if it is missing"
        ),
    )

    @classmethod
    def check(cls, settings: Settings) -> Iterator[Wrong]:
        yield from wrong_url(settings)
        if not all(isinstance(name, str) for name in settings["keys"]):
            yield Wrong(setting="keys", reason="a list of column names is needed")
        for name in ("orderBy", "deletes"):
            if settings[name] and not settings["keys"]:
                yield Wrong(setting=name, reason="it needs keys: the columns that say which row is meant")

    @classmethod
    def strongest(cls, settings: Settings) -> Promise:
        if settings["keys"]:
            because = "a row is upserted by its key, so a micro-batch that comes again writes the same rows"
        else:
            because = (
                "a row is upserted by topic, partition and offset, or, where rows do not have them, "
                f"a micro-batch is one transaction that stores its number in {MARKER_TABLE}"
            )
        return Promise(guarantee=Guarantee.EXACTLY_ONCE, because=because)

    def writer(self, frame: "DataFrame", settings: Settings, context: PipelineContext) -> "DataStreamWriter":
        target = _target(frame.columns, settings)
        is_marked = not target.keys and settings["guarantee"] == Guarantee.EXACTLY_ONCE
        with closing(target.server.connect()) as connection, connection, connection.cursor() as cursor:
            if settings["createTable"]:
                cursor.execute(target.create_statement(frame.schema))
            if is_marked:
                cursor.execute(target.create_marker_statement())
            cursor.execute(target.explain_statement(cursor))  # Finds missing tables, columns, unique keys and rights.
        return frame.writeStream.foreachBatch(_batch_function(target, settings["orderBy"], is_marked=is_marked))


def _target(columns: Sequence[str], settings: Settings) -> TargetTable:
    keys = settings["keys"] or (RECORD_KEY if set(RECORD_KEY) <= set(columns) else ())
    named = {*keys} | ({settings["orderBy"]} if settings["orderBy"] else set())
    if missing := sorted(named - set(columns)):
        raise DoesNotFit(f"the rows have no column {', '.join(missing)}, only {', '.join(columns)}")
    delete_by = (
        next((name for name in (OP_COLUMN, VALUE_COLUMN) if name in columns), None) if settings["deletes"] else None
    )
    if settings["deletes"] and delete_by is None:
        raise DoesNotFit(f"deletes: the rows have neither {OP_COLUMN} nor {VALUE_COLUMN}, which say what is deleted")
    return TargetTable(
        server=Server.of(settings),
        name=settings["table"],
        columns=tuple(name for name in columns if not (name == OP_COLUMN == delete_by)),
        keys=tuple(keys),
        order_by=settings["orderBy"],
        delete_by=delete_by,
    )


def _batch_function(
    target: TargetTable, order_by: str | None, *, is_marked: bool
) -> "Callable[[DataFrame, int], None]":
    def upsert(batch: "DataFrame", number: int) -> None:
        rows = batch.repartition(*target.keys).sortWithinPartitions(order_by) if order_by else batch
        in_tasks(rows, target.upsert)

    def append_once(batch: "DataFrame", number: int) -> None:
        in_tasks(batch.repartition(1), partial(target.append_once, query_id(batch), number))

    def append(batch: "DataFrame", number: int) -> None:
        in_tasks(batch, target.append)

    return upsert if target.keys else append_once if is_marked else append
