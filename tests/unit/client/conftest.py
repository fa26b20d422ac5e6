"""librdkafka's own mock cluster, in this process: real sockets and groups, no broker of ours.

It answers Produce, Fetch, groups and transactions, creates topics on demand, can be told to fail a request, and keeps
a list of the requests it saw.
"""

import ctypes
import signal
from collections import Counter
from collections.abc import Iterator
from ctypes import c_char_p, c_int, c_int16, c_int32, c_size_t, c_void_p

import pytest

from ottla.client import librdkafka


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Whoever runs tests in the background may have them ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


SIGNATURES = {
    "rd_kafka_mock_cluster_new": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_mock_cluster_destroy": (None, (c_void_p,)),
    "rd_kafka_mock_cluster_bootstraps": (c_char_p, (c_void_p,)),
    "rd_kafka_mock_topic_create": (c_int, (c_void_p, c_char_p, c_int, c_int)),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, (c_void_p, c_int32)),
    "rd_kafka_mock_push_request_errors_array": (None, (c_void_p, c_int16, c_size_t, c_void_p)),
    "rd_kafka_mock_start_request_tracking": (None, (c_void_p,)),
    "rd_kafka_mock_stop_request_tracking": (None, (c_void_p,)),
    "rd_kafka_mock_get_requests": (c_void_p, (c_void_p, ctypes.POINTER(c_size_t))),
    "rd_kafka_mock_request_api_key": (c_int16, (c_void_p,)),
    "rd_kafka_mock_request_destroy_array": (None, (c_void_p, c_size_t)),
}


class MockCluster:
    def __init__(self, broker_count: int) -> None:
        self._library = librdkafka.library()
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, list(arguments)
        reason = ctypes.create_string_buffer(512)
        self._client = self._library.rd_kafka_new(librdkafka.PRODUCER, None, reason, len(reason))
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, broker_count)
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)
        self.bootstrap_servers: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._topic_count = 0

    def topic(self, *, partitions: int = 1) -> str:
        """A new topic's name."""
        self._topic_count += 1
        name = f"topic-{self._topic_count}"
        assert self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1) == 0
        return name

    def fail_next(self, api_key: int, *error_codes: int) -> None:
        errors = (c_int * len(error_codes))(*error_codes)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, api_key, len(error_codes), errors)

    def count_requests(self) -> None:
        self._library.rd_kafka_mock_start_request_tracking(self._cluster)

    def requests(self) -> Counter[int]:
        """How often each API was called since `count_requests`, by API key."""
        count = c_size_t()
        listed = self._library.rd_kafka_mock_get_requests(self._cluster, ctypes.byref(count))
        requests = ctypes.cast(listed, ctypes.POINTER(c_void_p))
        seen = Counter(self._library.rd_kafka_mock_request_api_key(requests[index]) for index in range(count.value))
        self._library.rd_kafka_mock_request_destroy_array(listed, count)
        self._library.rd_kafka_mock_stop_request_tracking(self._cluster)
        return seen

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)


@pytest.fixture(scope="session")
def mock_cluster() -> Iterator[MockCluster]:
    cluster = MockCluster(broker_count=3)
    yield cluster
    cluster.close()
