"""What an error of the SDK becomes on the command line."""

from confluent_kafka import KafkaError

from ottla.cli.errors import OPERATION_FAILED, UNREACHABLE, failure_of, refused
from ottla.client.errors import PartialFailure, client_error, coded_error


def test_a_refusal_names_the_deed_the_error_and_what_to_type() -> None:
    error = client_error(KafkaError(36, "Topic 'a' already exists."), "creating a")
    failure = failure_of(error, servers="b:1")
    assert failure.message == "creating a: TOPIC_ALREADY_EXISTS: Topic 'a' already exists (--if-not-exists accepts it)"
    assert failure.exit_code == OPERATION_FAILED


def test_the_advice_of_the_sdk_to_programs_is_not_repeated() -> None:
    failure = failure_of(client_error(KafkaError(3), "describing a"), servers="b:1")
    assert "Admin." not in failure.message
    assert "`ottla topic list`" in failure.message


def test_silence_is_told_apart_from_a_refusal() -> None:
    failure = failure_of(client_error(KafkaError(KafkaError._TIMED_OUT), "listing topics"), servers="b:1")
    assert failure.exit_code == UNREACHABLE
    assert failure.message.startswith("no answer from b:1")


def test_every_part_of_a_partial_failure_is_told() -> None:
    parts = {name: client_error(KafkaError(3), f"deleting {name}") for name in ("a", "b")}
    message = failure_of(PartialFailure(parts), servers="b:1").message
    assert "deleting a: UNKNOWN_TOPIC_OR_PARTITION" in message
    assert "deleting b: UNKNOWN_TOPIC_OR_PARTITION" in message


def test_a_code_in_a_response_gets_its_name() -> None:
    named = failure_of(coded_error(17, "creating a", "bad name"), servers="b:1")
    assert named.message == "creating a: INVALID_TOPIC_EXCEPTION: bad name"
    assert "error 9999: the broker refuses" in failure_of(coded_error(9999, "asking"), servers="b:1").message


def test_a_record_that_the_broker_finds_invalid_comes_with_the_usual_reason() -> None:
    assert "a compacted topic needs a key in each record" in refused(
        "INVALID_RECORD", "Broker failed to validate record"
    )
