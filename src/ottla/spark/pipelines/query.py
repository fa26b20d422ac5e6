"""One pipeline as one streaming query: its frame, its sink's writer, and what all queries share."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from ottla.spark.pipelines.contract import PipelineContext
from ottla.spark.pipelines.definition import Pipeline, Trigger, TriggerKind
from ottla.spark.pipelines.explanation import without_secrets
from ottla.spark.pipelines.transforms import result_frame

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SPARK_CHECKPOINT: Final = "spark"
"""Spark's own directory in a pipeline's checkpoint."""


def context_of(pipeline: Pipeline, checkpoint: Path) -> PipelineContext:
    return PipelineContext(
        name=pipeline.name,
        bootstrap_servers=pipeline.bootstrap_servers,
        checkpoint=checkpoint,
        client_options=pipeline.client_options,
        errors=pipeline.errors,
    )


def start_query(
    session: SparkSession, pipeline: Pipeline, context: PipelineContext, *, trigger: Trigger
) -> "StreamingQuery":
    frame = result_frame(session, pipeline, context)
    settings = {**pipeline.sink.settings, "guarantee": pipeline.guarantee}
    writer = pipeline.sink.kind().writer(frame, settings, context)
    writer = writer.queryName(pipeline.name).outputMode(pipeline.output_mode)
    writer = writer.option("checkpointLocation", str(context.checkpoint / SPARK_CHECKPOINT))
    return _triggered(writer, trigger).start()


def _triggered(writer: "DataStreamWriter", trigger: Trigger) -> "DataStreamWriter":
    match trigger.kind:
        case TriggerKind.INTERVAL:
            return writer.trigger(processingTime=f"{trigger.interval_ms} milliseconds")
        case TriggerKind.AVAILABLE_NOW:
            return writer.trigger(availableNow=True)
        case TriggerKind.ONCE:
            return writer.trigger(once=True)


def plan_of(session: SparkSession, pipeline: Pipeline, context: PipelineContext) -> str:
    """Spark's plan as text, without starting anything and without secrets, which are among the options of its relations.

    The logical one: the physical one of a stream is made with each micro-batch.
    """
    frame = result_frame(session, pipeline, context)
    return without_secrets(str(frame._jdf.queryExecution().analyzed().toString()).rstrip(), pipeline)
