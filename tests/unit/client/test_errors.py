"""librdkafka's errors in Kafka's words, with what to do."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.base.errors import ErrorCode
from ottla.client.errors import REMEDIES, ClientError, PartialFailure, client_error


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, "MESSAGE_TOO_LARGE"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "UNKNOWN_TOPIC_OR_PARTITION"),
        (KafkaError.STALE_CTRL_EPOCH, "STALE_CONTROLLER_EPOCH"),
        (KafkaError.KAFKA_STORAGE_ERROR, "KAFKA_STORAGE_ERROR"),
        (KafkaError._MSG_TIMED_OUT, "_MSG_TIMED_OUT"),
    ],
)
def test_names_are_kafkas(code: int, name: str) -> None:
    error = client_error(KafkaException(KafkaError(code)), "sending")
    assert error.code == name
    assert "(while sending)" in str(error)


def test_what_may_be_done_next_is_kept() -> None:
    error = client_error(KafkaError(KafkaError._FENCED, "old", fatal=True, txn_requires_abort=True), "committing")
    assert (error.fatal, error.needs_abort, error.retriable) == (True, True, False)


def test_remedies_are_for_errors_that_exist() -> None:
    local = {name for name in vars(KafkaError) if name.startswith("_")}
    assert set(REMEDIES) <= local | set(ErrorCode.__members__)


def test_a_partial_failure_names_every_part() -> None:
    failures = {name: ClientError("TOPIC_ALREADY_EXISTS", "no") for name in ("orders", "payments")}
    error = PartialFailure(failures)
    assert "orders" in str(error)
    assert "payments" in str(error)
    assert error.failures == failures
