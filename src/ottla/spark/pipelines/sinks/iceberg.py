"""An Iceberg table as a sink, through `pyiceberg`: no JAR. The catalogue is SQLite in a directory, or any that it knows.

Tasks write the data files, whatever partitioning the table has; the driver appends them in one transaction that also
sets a table property to the batch's number, so that a batch which comes again is skipped. A property outlives snapshots:
these expire. Files of an attempt that failed stay until the table's orphan files are removed, as with Delta.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.spark.pipelines.contract import Guarantee, PipelineContext, Promise, Setting, Settings, Sink, Wrong
from ottla.spark.pipelines.sinks.micro_batch import DoesNotFit, gathered, in_tasks, query_id, stored_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FILE_BYTES: Final = 128 << 20  # In Arrow: what a task holds in memory.
COMMIT_ATTEMPTS_MAX: Final = 20  # Each loses only to another writer's success.


class IcebergSink(Sink):
    name = "iceberg"
    settings = (
        Setting(name="table", kind=str, is_required=True, doc="the table with its namespace, such as shop.orders"),
        Setting(name="warehouse", kind=str, doc="a directory for tables, with a SQLite catalogue of them"),
        Setting(
            name="catalog", kind=dict, default={}, doc="another catalogue, by pyiceberg's properties: type, uri, …"
        ),
        Setting(name="partitionBy", kind=list, default=[], doc="columns whose values divide a table that is made"),
    )

    @classmethod
    def check(cls, settings: Settings) -> Iterator[Wrong]:
        if bool(settings["warehouse"]) == bool(settings["catalog"]):
            yield Wrong(setting="warehouse", reason="exactly one of warehouse and catalog is needed")
        if not all(settings["table"].split(".")) or "." not in settings["table"]:
            yield Wrong(setting="table", reason=f"{settings['table']!r} is not namespace.table")
        if not all(isinstance(name, str) for name in settings["partitionBy"]):
            yield Wrong(setting="partitionBy", reason="a list of column names is needed")

    @classmethod
    def strongest(cls, settings: Settings) -> Promise:
        return Promise(
            guarantee=Guarantee.EXACTLY_ONCE,
            because="the transaction that appends a micro-batch's files sets the batch's number as a table property",
        )

    def writer(self, frame: "DataFrame", settings: Settings, context: PipelineContext) -> "DataStreamWriter":
        table = IcebergLocation(identifier=settings["table"], catalog=_catalog_properties(settings))
        table.prepare(stored_schema(frame.schema), settings["partitionBy"])
        return frame.writeStream.foreachBatch(partial(_append, table))


def _catalog_properties(settings: Settings) -> dict[str, str]:
    if settings["catalog"]:
        return {name: str(value) for name, value in settings["catalog"].items()}
    warehouse = Path(settings["warehouse"]).absolute()
    warehouse.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{warehouse / 'catalog.db'}", "warehouse": warehouse.as_uri()}


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergLocation:
    identifier: str
    catalog: dict[str, str]

    def open(self) -> "Table":
        table = self._load_catalog().load_table(self.identifier)
        # In our copy of the metadata only. Its own retries would not look at the batch's number again, and two drivers
        # on one checkpoint would both append.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        return table

    def prepare(self, schema: "pa.Schema", partition_by: Sequence[str]) -> None:
        """Makes the table, or sees whether the rows fit the one there is."""
        catalog = self._load_catalog()
        if catalog.table_exists(self.identifier):
            self._check(catalog.load_table(self.identifier), schema, partition_by)
            return
        if missing := sorted(set(partition_by) - set(schema.names)):
            raise DoesNotFit(f"the rows have no column {', '.join(missing)} to partition {self.identifier} by")
        catalog.create_namespace_if_not_exists(self.identifier.rpartition(".")[0])
        with (
            catalog.create_table_transaction(self.identifier, schema) as transaction,
            transaction.update_spec() as partitions,
        ):
            for name in partition_by:
                partitions.add_identity(name)

    def _check(self, table: "Table", schema: "pa.Schema", partition_by: Sequence[str]) -> None:
        from pyiceberg.io.pyarrow import _check_pyarrow_schema_compatible

        try:
            _check_pyarrow_schema_compatible(table.schema(), schema, format_version=table.format_version)
        except ValueError as error:
            raise DoesNotFit(f"the rows do not fit the Iceberg table {self.identifier}: {error}") from error
        existing = [field.name for field in table.spec().fields]
        if partition_by and list(partition_by) != existing:
            raise DoesNotFit(f"the Iceberg table {self.identifier} is partitioned by {existing}, not by {partition_by}")

    def _load_catalog(self) -> "Catalog":
        from pyiceberg.catalog import load_catalog

        return load_catalog("ottla", **self.catalog)


def _append(location: IcebergLocation, batch: "DataFrame", number: int) -> None:
    table = location.open()
    marker = f"ottla.batch.{query_id(batch)}"
    if _has(table, marker, number):
        return
    files = in_tasks(batch, partial(_write_files, table.metadata, table.io))
    if files:
        _commit(location, marker, number, files)


def _has(table: "Table", marker: str, number: int) -> bool:
    return int(table.properties.get(marker, -1)) >= number


def _write_files(metadata: "TableMetadata", io: "FileIO", batches: Iterator["pa.RecordBatch"]) -> "Iterator[DataFile]":
    """In a task. What `Table.append` does for its own writes: there is no public way to write files and append later."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    for rows in gathered(batches, FILE_BYTES):
        yield from _dataframe_to_data_files(table_metadata=metadata, df=rows, io=io)


def _commit(location: IcebergLocation, marker: str, number: int, files: "Sequence[DataFile]") -> None:
    from pyiceberg.exceptions import CommitFailedException

    for _ in range(COMMIT_ATTEMPTS_MAX):
        table = location.open()
        if _has(table, marker, number):
            return
        try:
            with table.transaction() as transaction:
                transaction.set_properties({marker: str(number)})
                with transaction.update_snapshot().fast_append() as append:
                    for file in files:
                        append.append_data_file(file)
            return
        except CommitFailedException as error:
            lost_to = error
    raise lost_to
