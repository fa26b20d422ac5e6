"""The bulk API's client against a server that speaks its HTTP: what it sends, what it sends again, what it gives back."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from ottla.spark.pipelines.sinks.bulk import ATTEMPTS_MAX, Bulk, BulkFailed, BulkServer, Document
from tests.fake_search import FakeSearch


@pytest.fixture
def search() -> Iterator[FakeSearch]:
    with FakeSearch() as server:
        yield server


class Pauses(list[float]):
    """Stands in for sleep."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def written(
    search: FakeSearch, *documents: Document, bulk_bytes: int = 1 << 20, **server: Any
) -> tuple[list[Any], Pauses]:
    pauses = Pauses()
    with Bulk(BulkServer(url=search.url, **server), index="orders", bulk_bytes=bulk_bytes, pause=pauses) as bulk:
        return [(one.document.id, one.reason) for one in bulk.write(documents)], pauses


def documents(count: int) -> list[Document]:
    return [Document.of(f"t-0-{number}", {"n": number}) for number in range(count)]


def test_documents_are_stored_by_their_ids(search: FakeSearch) -> None:
    assert written(search, *documents(3)) == ([], [])
    assert search.indexes == {"orders": {f"t-0-{number}": {"n": number} for number in range(3)}}
    assert written(search, *documents(3)) == ([], [])
    assert len(search.indexes["orders"]) == 3


def test_a_request_carries_as_much_as_it_may(search: FakeSearch) -> None:
    written(search, *documents(10), bulk_bytes=25)  # Of eight bytes each.
    assert [len(request) for request in search.requests] == [3, 3, 3, 1]


def test_only_what_the_server_was_too_busy_for_is_sent_again(search: FakeSearch) -> None:
    search.busy_documents = {"t-0-1": 2}
    refused, pauses = written(search, *documents(3))
    assert not refused
    assert [len(request) for request in search.requests] == [3, 1, 1]
    assert pauses == [0.25, 0.5]
    assert len(search.indexes["orders"]) == 3


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(search: FakeSearch, status: int) -> None:
    search.statuses = [status, status]
    assert written(search, *documents(2)) == ([], [0.25, 0.5])
    assert len(search.indexes["orders"]) == 2


def test_a_connection_that_breaks_is_opened_again(search: FakeSearch) -> None:
    search.statuses = [0]
    refused, pauses = written(search, *documents(2))
    assert (refused, len(pauses)) == ([], 1)
    assert len(search.indexes["orders"]) == 2


def test_patience_ends(search: FakeSearch) -> None:
    search.statuses = [503] * ATTEMPTS_MAX
    with pytest.raises(BulkFailed, match="after 8 attempts: it answers 503"):
        written(search, *documents(1))


def test_a_document_that_does_not_fit_comes_back_with_the_reason(search: FakeSearch) -> None:
    search.unfit_ids = {"t-0-1"}
    refused, pauses = written(search, *documents(3))
    assert refused == [("t-0-1", "failed to parse field [n] (For input string)")]
    assert not pauses and len(search.indexes["orders"]) == 2


def test_who_may_not_write_is_told(search: FakeSearch) -> None:
    search.password = "right"
    with pytest.raises(BulkFailed, match="answers 401"):
        written(search, *documents(1), user="me", password="wrong")
    assert written(search, *documents(1), user="me", password="right") == ([], [])


def test_values_are_json_as_mappings_take_them() -> None:
    row = {"at": datetime(2026, 1, 2, 3, tzinfo=UTC), "price": Decimal("1.10"), "raw": b"\x00\xff", "name": "ü"}
    expected = '{"at": "2026-01-02T03:00:00+00:00", "price": "1.10", "raw": "AP8=", "name": "ü"}'
    assert Document.of("1", row).source.decode() == expected
