"""A Delta table as a sink, through `deltalake`: no JAR.

Tasks write Parquet files (`delta_files`); the driver adds them to the table's log in one commit that also carries
(query id, batch number) as the protocol's application transaction, so that a batch which comes again is skipped.

Files of an attempt that failed stay until the table is vacuumed: when the answer to a commit is lost, nobody can say
whether it took place, and without its files a commit that did would have lost rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.pipelines.contract import Guarantee, PipelineContext, Promise, Setting, Settings, Sink, Wrong
from ottla.spark.pipelines.sinks.micro_batch import DoesNotFit, in_tasks, query_id, stored_schema

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake import Schema as DeltaSchema
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType


class DeltaSink(Sink):
    name = "delta"
    settings = (
        Setting(
            name="table", kind=str, is_required=True, doc="where the table is: a directory, s3://…, abfss://… or gs://…"
        ),
        Setting(name="partitionBy", kind=list, default=[], doc="the columns whose values divide the table"),
        Setting(name="storage", kind=dict, default={}, doc="options of the object store by deltalake's names"),
    )

    @classmethod
    def check(cls, settings: Settings) -> Iterator[Wrong]:
        if not all(isinstance(name, str) for name in settings["partitionBy"]):
            yield Wrong(setting="partitionBy", reason="a list of column names is needed")

    @classmethod
    def strongest(cls, settings: Settings) -> Promise:
        return Promise(
            guarantee=Guarantee.EXACTLY_ONCE,
            because="the commit that adds a micro-batch's files to the table carries the batch's number",
        )

    def writer(self, frame: "DataFrame", settings: Settings, context: PipelineContext) -> "DataStreamWriter":
        place = settings["table"]
        location = DeltaLocation(
            uri=place if "://" in place else str(Path(place).absolute()),
            storage={name: str(value) for name, value in settings["storage"].items()},
        )
        partition_by = _prepare(location, frame.schema, settings["partitionBy"])
        return frame.writeStream.foreachBatch(partial(_append, location, partition_by))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLocation:
    uri: str
    storage: dict[str, str]

    def open(self) -> "DeltaTable":
        from deltalake import DeltaTable

        return DeltaTable(self.uri, storage_options=self.storage)


def _append(location: DeltaLocation, partition_by: list[str], batch: "DataFrame", number: int) -> None:
    from deltalake import CommitProperties, Transaction

    from ottla.spark.pipelines.sinks.delta_files import write_files

    table = location.open()
    query = query_id(batch)
    done = table.transaction_version(query)
    if done is not None and done >= number:
        return
    added = in_tasks(batch, partial(write_files, location.uri, location.storage, partition_by))
    if added:
        table.create_write_transaction(
            [*added],
            mode="append",
            schema=table.schema(),
            partition_by=partition_by,
            commit_properties=CommitProperties(app_transactions=[Transaction(query, number)]),
        )


# -- before the query starts -----------------------------------------------------------------------------------------


def _prepare(location: DeltaLocation, schema: "StructType", partition_by: list[str]) -> list[str]:
    """Makes the table, or sees whether the rows fit the one there is. Returns the columns that divide it."""
    from deltalake import DeltaTable
    from deltalake import Schema as DeltaSchema

    wanted = DeltaSchema.from_arrow(stored_schema(schema))
    if DeltaTable.is_deltatable(location.uri, location.storage):
        table = location.open()
        existing: list[str] = table.metadata().partition_columns
        reasons = list(_mismatches(wanted, table.schema()))
        if partition_by and partition_by != existing:
            reasons.append(f"it is partitioned by {existing}, not by {partition_by}")
        partition_by = existing
    else:
        reasons = []
    reasons += _wrong_partitions(schema, partition_by)
    if reasons:
        raise DoesNotFit(f"the rows do not fit the Delta table {location.uri}: {'; '.join(reasons)}")
    DeltaTable.create(location.uri, wanted, mode="ignore", partition_by=partition_by, storage_options=location.storage)
    return partition_by


def _mismatches(wanted: "DeltaSchema", existing: "DeltaSchema") -> Iterator[str]:
    columns = {field.name: field for field in existing.fields}
    for field in wanted.fields:
        found = columns.pop(field.name, None)
        if found is None:
            yield f"it has no column {field.name}"
        elif found.type != field.type:
            yield f"its column {field.name} is {found.type.to_json()}, not {field.type.to_json()}"
    for field in columns.values():
        if not field.nullable:
            yield f"its column {field.name} may not be null, and the rows do not have it"


def _wrong_partitions(schema: "StructType", partition_by: list[str]) -> Iterator[str]:
    from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType

    types = {field.name: field.dataType for field in schema.fields}
    for name in partition_by:
        if name not in types:
            yield f"the rows have no column {name} to partition by"
        elif not isinstance(types[name], StringType | IntegralType | BooleanType | DateType):
            yield f"{name} is {types[name].simpleString()}: partition by texts, whole numbers, booleans or dates"
