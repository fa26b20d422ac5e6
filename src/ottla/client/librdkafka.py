"""librdkafka by ctypes: the few of its functions that take or give thousands of messages a call.

A Python loop around a client's `produce()` tops out far below what a broker takes. The C library inside
confluent-kafka's wheel does not, and calling it in bulk needs no compiler and nothing beyond that wheel. This module
knows the C side only: where the library lies, its structures and signatures, and the life of a handle. What a load
is, and when it failed, is `load.py`'s business.
"""

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, Final

PRODUCER: Final = 0
CONSUMER: Final = 1

MESSAGE_COPY: Final = 0x2  # librdkafka copies the payload; without it the caller keeps the bytes alive until delivery.
MESSAGE_OWN_PARTITION: Final = 0x8  # Each message names its partition.

EVENT_DELIVERY: Final = 0x1
EVENT_ERROR: Final = 0x8

ERROR_QUEUE_FULL: Final = -184
ERROR_PARTITION_END: Final = -191

_CONF_OK: Final = 0
_ERROR_TEXT_BYTES: Final = 512

ClientConfig = Mapping[str, str | int | float | bool]


class ClientError(Exception):
    """librdkafka refused a configuration, a topic or an address."""


class Message(ctypes.Structure):
    """`rd_kafka_message_t`, the same for producing and consuming."""

    _fields_ = (
        ("err", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("payload_bytes", c_size_t),
        ("key", c_void_p),
        ("key_bytes", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


class _TopicMetadata(ctypes.Structure):
    _fields_ = (("name", c_char_p), ("partition_count", c_int), ("partitions", c_void_p), ("err", c_int))


class _Metadata(ctypes.Structure):
    _fields_ = (
        ("broker_count", c_int),
        ("brokers", c_void_p),
        ("topic_count", c_int),
        ("topics", POINTER(_TopicMetadata)),
        ("origin_broker_id", c_int32),
        ("origin_broker_name", c_char_p),
    )


_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "rd_kafka_version_str": (c_char_p, ()),
    "rd_kafka_err2str": (c_char_p, (c_int,)),
    "rd_kafka_conf_new": (c_void_p, ()),
    "rd_kafka_conf_destroy": (None, (c_void_p,)),
    "rd_kafka_conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "rd_kafka_conf_set_events": (None, (c_void_p, c_int)),
    "rd_kafka_new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "rd_kafka_destroy": (None, (c_void_p,)),
    "rd_kafka_topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "rd_kafka_topic_destroy": (None, (c_void_p,)),
    "rd_kafka_last_error": (c_int, ()),
    "rd_kafka_metadata": (c_int, (c_void_p, c_int, c_void_p, POINTER(POINTER(_Metadata)), c_int)),
    "rd_kafka_metadata_destroy": (None, (POINTER(_Metadata),)),
    "rd_kafka_produce_batch": (c_int, (c_void_p, c_int32, c_int, c_void_p, c_int)),
    "rd_kafka_flush": (c_int, (c_void_p, c_int)),
    "rd_kafka_outq_len": (c_int, (c_void_p,)),
    "rd_kafka_purge": (c_int, (c_void_p, c_int)),
    "rd_kafka_queue_new": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_get_main": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_destroy": (None, (c_void_p,)),
    "rd_kafka_queue_poll": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_event_type": (c_int, (c_void_p,)),
    "rd_kafka_event_error": (c_int, (c_void_p,)),
    "rd_kafka_event_error_string": (c_char_p, (c_void_p,)),
    "rd_kafka_event_message_count": (c_size_t, (c_void_p,)),
    "rd_kafka_event_destroy": (None, (c_void_p,)),
    "rd_kafka_consume_start_queue": (c_int, (c_void_p, c_int32, c_int64, c_void_p)),
    "rd_kafka_consume_stop": (c_int, (c_void_p, c_int32)),
    "rd_kafka_consume_batch_queue": (c_ssize_t, (c_void_p, c_int, POINTER(c_void_p), c_size_t)),
}


def library_path() -> str:
    """Where confluent-kafka's wheel keeps its librdkafka, or the system's copy where it was built from source."""
    package = importlib.util.find_spec("confluent_kafka")
    if package is not None and package.origin is not None:
        folder = Path(package.origin).parent
        for libraries in (folder.with_name("confluent_kafka.libs"), folder / ".dylibs"):  # Linux, macOS
            for candidate in sorted(libraries.glob("librdkafka*")):
                return str(candidate)
    system_copy = ctypes.util.find_library("rdkafka")
    if system_copy is None:
        raise ClientError("no librdkafka found: install confluent-kafka from a wheel, or librdkafka on the system")
    return system_copy


@cache
def library() -> ctypes.CDLL:
    """The library with its signatures declared. Its calls release the GIL."""
    loaded = ctypes.CDLL(library_path())
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = list(arguments)
    return loaded


@cache
def message_destroyer() -> Callable[[int], None]:
    """`rd_kafka_message_destroy` without the GIL's release and return, which would cost more than the call itself."""
    destroy = ctypes.PyDLL(library_path()).rd_kafka_message_destroy
    destroy.restype = None
    destroy.argtypes = [c_void_p]
    return destroy


def version() -> str:
    text: bytes = library().rd_kafka_version_str()
    return text.decode()


def error_text(code: int) -> str:
    text: bytes = library().rd_kafka_err2str(code)
    return text.decode()


class Handle:
    """One librdkafka client bound to one topic: its connections and threads live from here to `close()`."""

    def __init__(self, kind: int, topic: str, config: ClientConfig, *, events: int = 0) -> None:
        self._library = library()
        self._topic_name = topic
        self.client = self._open_client(kind, config, events)
        self.topic: int = self._library.rd_kafka_topic_new(self.client, topic.encode(), None)
        if not self.topic:
            reason = error_text(self._library.rd_kafka_last_error())
            self._library.rd_kafka_destroy(self.client)
            raise ClientError(f"topic {topic!r}: {reason}")

    def _open_client(self, kind: int, config: ClientConfig, events: int) -> int:
        reason = ctypes.create_string_buffer(_ERROR_TEXT_BYTES)
        conf = self._library.rd_kafka_conf_new()
        for name, value in config.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if self._library.rd_kafka_conf_set(conf, name.encode(), text.encode(), reason, len(reason)) != _CONF_OK:
                self._library.rd_kafka_conf_destroy(conf)
                raise ClientError(reason.value.decode())
        if events:
            self._library.rd_kafka_conf_set_events(conf, events)
        client: int | None = self._library.rd_kafka_new(kind, conf, reason, len(reason))
        if not client:  # Only a success takes ownership of the configuration.
            self._library.rd_kafka_conf_destroy(conf)
            raise ClientError(reason.value.decode())
        return client

    def partition_count(self, *, timeout_seconds: float) -> int:
        """Asks the cluster; the connection this opens is the one the load then uses."""
        answer = POINTER(_Metadata)()
        err = self._library.rd_kafka_metadata(
            self.client, 0, self.topic, ctypes.byref(answer), int(timeout_seconds * 1000)
        )
        if err:
            raise ClientError(f"metadata of topic {self._topic_name!r}: {error_text(err)}")
        try:
            topic = answer.contents.topics[0]
            if topic.err:
                raise ClientError(f"metadata of topic {self._topic_name!r}: {error_text(topic.err)}")
            return int(topic.partition_count)
        finally:
            self._library.rd_kafka_metadata_destroy(answer)

    def close(self) -> None:
        if self.client:
            self._library.rd_kafka_topic_destroy(self.topic)
            self._library.rd_kafka_destroy(self.client)
            self.client = 0
