"""Decoded records to the batches of rows that Spark gets, bad records dealt with as the query wishes."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ottla.base.types import TopicPartition
from ottla.spark.bad_records import BadRecord, DeadLetters
from ottla.spark.columns import format_of
from ottla.spark.record_columns import RecordColumns
from ottla.spark.source_options import ERROR_COLUMN, BadRecords, SourceOptions
from ottla.spark.value_formats import Decoder, decoder_of


class RowBatches:
    """Of one partition, in one task."""

    def __init__(self, options: SourceOptions, schema: pa.Schema, partition: TopicPartition) -> None:
        self._bad_records = options.bad_records
        self._dead_letters = DeadLetters(options, partition)
        self._schema = schema
        self._partition = partition
        self._decoders: dict[str, Decoder] = {
            name: decoder_of(format_of(name, options).kind, schema.field(name).type)
            for name in ("key", "value")
            if name in schema.names
        }

    @property
    def needs_headers(self) -> bool:
        return "headers" in self._schema.names or self._bad_records is BadRecords.DEAD_LETTER

    def build(self, records: RecordColumns) -> pa.RecordBatch:
        typed: dict[str, pa.Array] = {}
        reasons: dict[int, str] = {}
        for name, decode in self._decoders.items():
            decoded = decode(records.keys if name == "key" else records.values)
            typed[name] = decoded.column
            reasons |= {row: f"{name}: {reason}" for row, reason in decoded.reasons.items()}
        batch = self._batch(records, typed, reasons)
        return self._without_bad_rows(batch, records, reasons) if reasons else batch

    def _batch(
        self, records: RecordColumns, typed: Mapping[str, pa.Array], reasons: Mapping[int, str]
    ) -> pa.RecordBatch:
        arrays = [typed[name] if name in typed else self._array(name, records, reasons) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, name: str, records: RecordColumns, reasons: Mapping[int, str]) -> pa.Array:
        count = len(records)
        match name:
            case "topic":
                return pa.repeat(pa.scalar(self._partition.topic), count)
            case "partition":
                return pa.repeat(pa.scalar(self._partition.partition, pa.int32()), count)
            case "offset":
                return pa.array(records.offsets)
            case "timestamp":
                return pa.array(records.timestamps_ms * np.int64(1000)).cast(self._schema.field(name).type)
            case "timestampType":
                return pa.array(records.timestamp_types)
            case "headers":
                return records.headers
            case _:
                assert name == ERROR_COLUMN, name
                return pa.array([reasons.get(row) for row in range(count)], pa.string())

    def _without_bad_rows(
        self, batch: pa.RecordBatch, records: RecordColumns, reasons: Mapping[int, str]
    ) -> pa.RecordBatch:
        match self._bad_records:
            case BadRecords.COLUMN:
                return batch
            case BadRecords.DEAD_LETTER:
                self._dead_letters.send(records, reasons)
                is_good = np.ones(len(records), np.bool_)
                is_good[list(reasons)] = False
                return batch.filter(pa.array(is_good))
            case BadRecords.FAIL:
                row, reason = min(reasons.items())
                raise BadRecord(
                    f"{self._partition}@{records.offsets[row]}: {reason}. Set badRecords=column to get such records with "
                    "their error, or badRecords=deadLetter to send them to a topic"
                )
