"""From a pipeline's sources through its steps to the one frame that goes to the sink.

Every source and every step that has a name is a temporary view; the result of the step before is the view `input`. Views
belong to the session, so a pipeline needs one of its own.
"""

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import assert_never

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import DataFrame, SparkSession

from ottla.spark.pipelines.contract import PipelineContext
from ottla.spark.pipelines.definition import INPUT, Pipeline, PythonStep, SourceDefinition, SqlStep
from ottla.spark.pipelines.kinds import make_importable


class StepFailed(Exception):
    """A Python step that did not give what it must."""


def result_frame(spark: SparkSession, pipeline: Pipeline, context: PipelineContext) -> DataFrame:
    frames = {source.view: _source_frame(spark, source, context) for source in pipeline.sources}
    for view, frame in frames.items():
        frame.createOrReplaceTempView(view)
    *_, result = frames.values()
    if len(frames) == 1:
        result.createOrReplaceTempView(INPUT)
    for step in pipeline.steps:
        match step:
            case SqlStep():
                result = spark.sql(step.sql)
            case PythonStep():
                given = frames if pipeline.is_multi_source else result
                result = _called(step, pipeline.file.parent, given, spark)
            case _:
                assert_never(step)
        for view in filter(None, (INPUT, step.view)):
            frames[view] = result
            result.createOrReplaceTempView(view)
    return result


def _source_frame(spark: SparkSession, source: SourceDefinition, context: PipelineContext) -> DataFrame:
    frame = source.kind().frame(spark, source.settings, context)
    if source.watermark is None:
        return frame
    return frame.withWatermark(source.watermark.column, f"{source.watermark.delay_ms} milliseconds")


def _called(
    step: PythonStep, directory: Path, given: DataFrame | Mapping[str, DataFrame], spark: SparkSession
) -> DataFrame:
    make_importable(directory)
    module = importlib.import_module(step.module)
    beside = directory.absolute() / f"{step.module}.py"
    if beside.exists() and Path(module.__file__ or "") != beside:
        raise StepFailed(f"{step.module} is {module.__file__} here, not {beside}: give one of them another name")
    _send_by_value(directory)
    function = getattr(module, step.function)
    frame = function(given, spark)
    if not isinstance(frame, DataFrame):
        raise StepFailed(f"{step.module}:{step.function} gave {type(frame).__name__}: a DataFrame is needed")
    return frame


def _send_by_value(directory: Path) -> None:
    """Workers cannot import what lies beside the pipeline's file, so its functions and classes travel as a whole."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).parent == directory.absolute():
            register_pickle_by_value(module)  # type: ignore[no-untyped-call]
