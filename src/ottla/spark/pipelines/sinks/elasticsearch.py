"""An Elasticsearch or OpenSearch index as a sink, through its bulk API: nothing but HTTP is needed.

The document's id is a column's value, or `topic-partition-offset` where the rows still have them: a document that is
written again replaces itself. What the index refuses for good (a value that does not fit its mapping, say) fails the
pipeline with the reason, or goes to the dead-letter topic when the pipeline's errors are tolerated.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ottla.client.raw.security_options import in_librdkafkas_names
from ottla.spark.pipelines.contract import (
    Guarantee,
    PipelineContext,
    Promise,
    Setting,
    Settings,
    Sink,
    Tolerance,
    Wrong,
)
from ottla.spark.pipelines.sinks.bulk import Bulk, BulkServer, Document, Refused
from ottla.spark.pipelines.sinks.micro_batch import DoesNotFit, in_tasks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

RECORD_KEY: Final = ("topic", "partition", "offset")


class ElasticsearchSink(Sink):
    name = "elasticsearch"
    settings = (
        Setting(name="url", kind=str, is_required=True, doc="http://host:9200 or https://…"),
        Setting(name="index", kind=str, is_required=True, doc="the index; it is made by the first document if need be"),
        Setting(name="id", kind=str, doc="the column with a document's id; without it, topic-partition-offset"),
        Setting(name="user", kind=str, doc="the user for basic authentication"),
        Setting(name="password", kind=str, doc="the password; ${VARIABLE} takes it from the environment"),
        Setting(name="apiKey", kind=str, doc="an API key, instead of user and password"),
        Setting(name="bulkBytes", kind=int, default=5 << 20, doc="how much a request carries"),
    )

    @classmethod
    def check(cls, settings: Settings) -> Iterator[Wrong]:
        url = urlsplit(settings["url"])
        if url.scheme not in ("http", "https") or not url.hostname:
            yield Wrong(setting="url", reason=f"{settings['url']!r} is not http://host:port or https://host:port")
        if settings["apiKey"] and settings["user"]:
            yield Wrong(setting="apiKey", reason="there is a user, too: one of them is enough")
        if bool(settings["user"]) != bool(settings["password"]):
            yield Wrong(setting="user", reason="user and password belong together")
        if settings["bulkBytes"] <= 0:
            yield Wrong(setting="bulkBytes", reason="it must be positive")

    @classmethod
    def strongest(cls, settings: Settings) -> Promise:
        by = f"the column {settings['id']}" if settings["id"] else "topic, partition and offset"
        return Promise(
            guarantee=Guarantee.EXACTLY_ONCE,
            because=f"a document's id is {by}: one that is written again replaces itself",
        )

    def writer(self, frame: "DataFrame", settings: Settings, context: PipelineContext) -> "DataStreamWriter":
        needed = [settings["id"]] if settings["id"] else RECORD_KEY
        if missing := [name for name in needed if name not in frame.columns]:
            raise DoesNotFit(
                f"the rows have no column {', '.join(missing)}, so a document has no id: keep it in the transform, "
                "or name a column that identifies a row with id:"
            )
        index = Index(
            server=BulkServer(
                url=settings["url"],
                user=settings["user"],
                password=settings["password"],
                api_key=settings["apiKey"],
            ),
            name=settings["index"],
            id_column=settings["id"],
            bulk_bytes=settings["bulkBytes"],
            dead_letters=_dead_letters(context),
        )
        return frame.writeStream.foreachBatch(partial(_write, index))


def _write(index: "Index", batch: "DataFrame", number: int) -> None:
    in_tasks(batch, index.write)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Where refused documents go. No topic: nowhere, but the pipeline goes on."""

    topic: str | None
    bootstrap_servers: str
    client_options: dict[str, object] = field(default_factory=dict, repr=False)

    def send(self, refused: list[Refused]) -> None:
        """Returns when all are acknowledged; `ClientError` when one is not."""
        from ottla.client import Producer
        from ottla.spark.bad_records import HEADER_PREFIX

        if self.topic is None:
            return
        with Producer({"bootstrap.servers": self.bootstrap_servers, **self.client_options}) as producer:
            deliveries = [
                producer.send(
                    self.topic,
                    one.document.source,
                    one.document.id.encode(),
                    headers=[(HEADER_PREFIX + "exception.message", one.reason.encode())],
                )
                for one in refused
            ]
            for delivery in deliveries:
                delivery.get()


def _dead_letters(context: PipelineContext) -> DeadLetters | None:
    """None: a refused document fails the pipeline."""
    if context.errors.tolerance is Tolerance.NONE:
        return None
    return DeadLetters(
        topic=context.errors.dead_letter_topic,
        bootstrap_servers=context.bootstrap_servers,
        client_options=in_librdkafkas_names(
            {name.removeprefix("kafka."): value for name, value in context.client_options.items()}
        ),
    )


class DocumentsRefused(Exception):
    """The index does not take documents, and never will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    server: BulkServer
    name: str
    id_column: str | None
    bulk_bytes: int
    dead_letters: DeadLetters | None

    def write(self, batches: Iterator["pa.RecordBatch"]) -> Iterator[int]:
        """In a task. Yields the count of documents of each batch."""
        with Bulk(self.server, index=self.name, bulk_bytes=self.bulk_bytes) as bulk:
            for batch in batches:
                rows = batch.to_pylist()
                refused = list(bulk.write(Document.of(self._id(row), row) for row in rows))
                if refused:
                    self._refused(refused)
                yield len(rows)

    def _id(self, row: dict[str, Any]) -> str:
        if self.id_column is None:
            return "-".join(str(row[name]) for name in RECORD_KEY)
        if row[self.id_column] is None:
            raise ValueError(f"a row for the index {self.name} has no value in {self.id_column}, its id")
        return str(row[self.id_column])

    def _refused(self, refused: list[Refused]) -> None:
        if self.dead_letters is None:
            first = refused[0]
            raise DocumentsRefused(
                f"the index {self.name} refused {len(refused)} documents, {first.document.id} because: {first.reason}. "
                "Mend the transform or the mapping, or let errors: {tolerance: all, deadLetterTopic: …} take them"
            )
        self.dead_letters.send(refused)
