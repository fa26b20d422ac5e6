"""The bulk producer with transactions: librdkafka's calls for them, by ctypes as in ottla.client.librdkafka."""

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_char_p, c_int, c_void_p
from typing import Any, Final

from ottla.client.bulk import LoadError, LoadProducer

CALL_MS_MAX: Final = 60_000


class TransactionalLoadProducer(LoadProducer):
    """Sends message blocks in transactions. `delivery.report.only.error` keeps the commit's flush from waiting for us."""

    def __init__(self, bootstrap: str, topic: str, *, transactional_id: str) -> None:
        super().__init__(bootstrap, topic, config={"transactional.id": transactional_id, "acks": "all"})
        self._call("rd_kafka_init_transactions", CALL_MS_MAX)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits at the end. One that fails is not aborted: there is no figure then."""
        self._call("rd_kafka_begin_transaction")
        yield
        self._call("rd_kafka_commit_transaction", CALL_MS_MAX)

    def _call(self, name: str, *arguments: int) -> None:
        error: int | None = self._function(name, c_void_p, c_void_p, *(c_int for _ in arguments))(
            self._handle.client, *arguments
        )
        if error:
            text: bytes = self._function("rd_kafka_error_string", c_char_p, c_void_p)(error)
            raise LoadError(f"{name}: {text.decode()}")

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, arguments
        return function
