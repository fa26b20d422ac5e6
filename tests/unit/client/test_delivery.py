"""A delivery settles once, for waiters and callbacks alike, whichever comes first."""

import logging
import threading

import pytest
from confluent_kafka import KafkaError, Message

from ottla.client.delivery import Delivery
from ottla.client.errors import ClientError
from ottla.client.records import RecordMetadata

SENT = Message(topic="orders", partition=3, offset=42, timestamp=(1, 1_000))


def test_a_callback_added_late_is_told_at_once() -> None:
    delivery, told = Delivery(), []
    delivery.on_report(None, SENT)
    delivery.add_done_callback(lambda *outcome: told.append(outcome))
    assert told == [(RecordMetadata("orders", 3, 42, 1_000), None)]


def test_callbacks_added_before_are_told_in_order() -> None:
    told: list[str] = []
    delivery = Delivery(lambda *_: told.append("first"))
    delivery.add_done_callback(lambda *_: told.append("second"))
    assert not delivery.done()
    delivery.on_report(None, SENT)
    assert told == ["first", "second"]


def test_several_threads_wait_for_one_delivery() -> None:
    delivery, results = Delivery(), []
    threads = [threading.Thread(target=lambda: results.append(delivery.get(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    delivery.on_report(None, SENT)
    for thread in threads:
        thread.join()
    assert {result.offset for result in results} == {42}
    assert len(results) == 4


def test_a_failure_that_nobody_waits_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Delivery().on_report(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS), SENT)
    assert "NOT_ENOUGH_REPLICAS" in caplog.text


def test_a_failure_is_raised_in_kafkas_words() -> None:
    delivery = Delivery()
    delivery.on_report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), SENT)
    with pytest.raises(ClientError, match="orders-3") as caught:
        delivery.result()
    assert (caught.value.code, caught.value.retriable) == ("MESSAGE_TOO_LARGE", False)
    assert delivery.exception() is caught.value
