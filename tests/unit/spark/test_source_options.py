"""Options: the official connector's names, and no misspelling passes."""

import pytest

from ottla.base.types import TopicPartition
from ottla.spark.options import OptionError
from ottla.spark.source_options import SourceOptions

LEAST = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t"}


def parsed(**options: str) -> SourceOptions:
    return SourceOptions.parse({**LEAST, **options})


def test_defaults_are_the_official_connectors_but_for_what_is_not_committed() -> None:
    options = parsed()
    assert options.topics == ("t",)
    assert (options.starting.rule, options.ending.rule) == ("earliest", "latest")
    assert options.fail_on_data_loss and options.read_committed and not options.include_headers


def test_a_stream_begins_at_the_end_and_has_none() -> None:
    assert SourceOptions.parse(LEAST, streaming=True).starting.rule == "latest"
    told = SourceOptions.parse({**LEAST, "startingTimestamp": "5"}, streaming=True)
    assert told.starting.timestamp_ms == 5
    with pytest.raises(OptionError, match="endingOffsets is for batch reads"):
        SourceOptions.parse({**LEAST, "endingOffsets": "latest"}, streaming=True)


def test_names_are_read_without_regard_to_case() -> None:
    assert SourceOptions.parse({"KAFKA.bootstrap.servers": "b", "SUBSCRIBE": "a, b", "maxoffsetspertrigger": "5"}) == (
        SourceOptions.parse({"kafka.bootstrap.servers": "b", "subscribe": "a,b", "maxOffsetsPerTrigger": "5"})
    )


def test_offsets_by_partition() -> None:
    options = parsed(startingOffsets='{"t": {"0": 23, "1": -2}}', endingOffsets='{"t": {"0": 50, "1": -1}}')
    assert options.starting.offsets == {TopicPartition("t", 0): 23, TopicPartition("t", 1): -2}
    assert options.ending.offsets == {TopicPartition("t", 0): 50, TopicPartition("t", 1): -1}


def test_a_timestamp_wins_over_offsets() -> None:
    options = parsed(startingOffsets="latest", startingTimestamp="1700000000000")
    assert options.starting.timestamp_ms == 1_700_000_000_000 and not options.starting.rule


def test_a_group_can_say_where_to_begin() -> None:
    assert parsed(startingOffsets="group:billing").starting.rule == "group:billing"


def test_what_tunes_javas_consumer_is_passed_over() -> None:
    tuned = {"kafka.max.poll.records": "5", "kafka.security.protocol": "PLAINTEXT", "groupIdPrefix": "p"}
    assert SourceOptions.parse({**LEAST, **tuned}) == parsed()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15min", 900), ("1d", 86_400), ("250", 0.25), ("30s", 30), ("2 h", 7200), ("5000us", 0.005)],
)
def test_durations_are_written_as_spark_writes_them(text: str, seconds: float) -> None:
    assert parsed(maxTriggerDelay=text).max_trigger_delay_seconds == pytest.approx(seconds)


def test_columns_are_named_without_regard_to_case() -> None:
    assert parsed(columns="Offset, timestamptype").columns == ("offset", "timestampType")


def test_headers_come_with_their_column() -> None:
    assert parsed(columns="value, headers").include_headers


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"subscribe": "t"}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "b"}, "exactly one of"),
        ({**LEAST, "assign": '{"t": [0]}'}, "exactly one of"),
        ({**LEAST, "maxOffsetPerTrigger": "5"}, "unknown options: maxoffsetpertrigger"),
        ({**LEAST, "maxOffsetsPerTrigger": "0"}, "positive"),
        ({**LEAST, "maxOffsetsPerTrigger": "many"}, "a positive whole number"),
        ({**LEAST, "endingOffsets": "earliest"}, "cannot be earliest"),
        ({**LEAST, "startingOffsets": "{"}, "not JSON"),
        ({**LEAST, "startingOffsets": '{"t": 5}'}, "is the form"),
        ({**LEAST, "startingOffsets": "{}"}, "startingOffsets names no partition"),
        ({**LEAST, "startingOffsets": '{"t": {"0": -3}}'}, "-3 is less than -2"),
        ({**LEAST, "startingOffsets": "newest"}, "earliest, latest, group:<name>, or JSON"),
        ({**LEAST, "startingOffsets": "group:"}, "earliest, latest, group:<name>, or JSON"),
        ({**LEAST, "startingOffsets": "latest"}, "cannot be latest in a batch read"),
        ({**LEAST, "startingOffsets": '{"t": {"0": -1}}'}, "cannot be latest in a batch read"),
        ({**LEAST, "endingOffsets": '{"t": {"0": -2}}'}, "endingOffsets cannot be earliest"),
        ({**LEAST, "startingTimestamp": "-5"}, "-5 is less than 0"),
        ({**LEAST, "startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "-1 is less than 0"),
        ({**LEAST, "subscribe": ","}, "names no topic"),
        ({"kafka.bootstrap.servers": "b", "subscribePattern": ""}, "names no topic"),
        ({"kafka.bootstrap.servers": "b", "assign": "{}"}, "names no topic"),
        ({"kafka.bootstrap.servers": "b", "assign": '{"t": 0}'}, "assign: .* is the form"),
        ({"kafka.bootstrap.servers": "b", "assign": '{"t": ["a"]}'}, "assign: .* is the form"),
        ({"kafka.bootstrap.servers": "b", "assign": '{"t": "12"}'}, "assign: .* is the form"),
        ({"kafka.bootstrap.servers": "b", "subscribePattern": "t["}, "is not a regular expression"),
        ({**LEAST, "columns": "offset,OFFSET"}, "twice"),
        ({**LEAST, "failOnDataLoss": "maybe"}, "true or false"),
        ({**LEAST, "kafka.isolation.level": "dirty"}, "one of read_committed"),
        ({**LEAST, "maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        ({**LEAST, "columns": "value,colour"}, "colour"),
        ({**LEAST, "valueFormat": "avro"}, "comes with the schema registry"),
        ({**LEAST, "keyFormat": "xml"}, "keyFormat=xml: one of binary, string, json"),
        ({**LEAST, "valueSchema": "id bigint"}, "set valueFormat=json"),
        ({**LEAST, "badRecords": "ignore"}, "one of fail, column, deadLetter"),
        ({**LEAST, "badRecords": "deadLetter"}, "need each other"),
        ({**LEAST, "deadLetterTopic": "d"}, "need each other"),
        ({**LEAST, "kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism is missing"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_read(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        SourceOptions.parse(options)
