"""Hostile bytes into every decoder: a value or a `ProtocolError` comes out, nothing else, and no memory is reserved.

Seeds are fixed, so a failure repeats. A decoded value must also survive being encoded and decoded again.
"""

import tracemalloc
from random import Random

import pytest

from ottla.base.errors import ProtocolError
from ottla.wire.apis import API_INFO
from ottla.wire.codec import codec_for
from ottla.wire.frame import decode_request_header
from ottla.wire.message import Message
from tests.unit.wire.message_values import ValueMaker, every_version, message_classes, versions_of

MUTATIONS_PER_VERSION = 600
RANDOM_PER_VERSION = 100
HOSTILE_NUMBERS = (
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 8,
    b"\x80",
    b"\x00",
    b"\xff\xff",
)
PEAK_BYTES_MAX = 256 * 1024


def mutated(random: Random, original: bytes) -> bytes:
    data = bytearray(original)
    for _ in range(random.choice((1, 1, 2, 5))):
        position = random.randrange(len(data) + 1)
        match random.randrange(5):
            case 0:
                del data[position:]
            case 1:
                data[position : position + 1] = random.randbytes(1)
            case 2:
                number = random.choice(HOSTILE_NUMBERS)
                data[position : position + len(number)] = number
            case 3:
                data[position:position] = random.randbytes(random.randrange(1, 9))
            case 4:
                del data[position : position + random.randrange(1, 9)]
    return bytes(data)


def decode_hostile(message_class: type[Message], version: int, data: bytes) -> bool:
    """Whether `data` was a message."""
    codec = codec_for(message_class, version)
    try:
        message, end = codec.decode(memoryview(data), 0)
    except ProtocolError:
        return False
    assert 0 <= end <= len(data)
    encoded = codec.encode(message)
    again, _ = codec.decode(memoryview(encoded), 0)
    assert codec.encode(again) == encoded
    return True


@pytest.mark.parametrize("message_class", message_classes(), ids=lambda message_class: message_class.__name__)
def test_only_protocol_errors_come_out(message_class: type[Message]) -> None:
    for version in versions_of(message_class):
        random = Random(f"{message_class.__name__} {version}")
        codec = codec_for(message_class, version)
        samples = [codec.encode(ValueMaker(seed, 0.8).message(message_class, version)) for seed in range(3)]
        for _ in range(MUTATIONS_PER_VERSION):
            decode_hostile(message_class, version, mutated(random, random.choice(samples)))
        for _ in range(RANDOM_PER_VERSION):
            decode_hostile(message_class, version, random.randbytes(random.randrange(80)))


def test_every_truncation_of_a_message_is_refused() -> None:
    for message_class, version in every_version():
        encoded = codec_for(message_class, version).encode(ValueMaker(1, 0.7).message(message_class, version))
        step = max(1, len(encoded) // 25)
        for length in range(0, len(encoded), step):
            assert not decode_hostile(message_class, version, encoded[:length]), (message_class, version, length)


def test_hostile_counts_reserve_nothing() -> None:
    """kio aborts the process on such a frame: a count of 2^32 in thirty bytes."""
    rng = Random(7)
    frames = []
    for message_class, version in every_version():
        encoded = codec_for(message_class, version).encode(ValueMaker(2, 0.8).message(message_class, version))[:4096]
        for _ in range(4):
            position = rng.randrange(len(encoded) + 1)
            number = rng.choice(HOSTILE_NUMBERS)
            frames.append((message_class, version, encoded[:position] + number + encoded[position:]))
        decode_hostile(message_class, version, encoded)  # Compiles, so that only decoding is measured.
    tracemalloc.start()
    try:
        for message_class, version, frame in frames:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            try:
                codec_for(message_class, version).decode(memoryview(frame), 0)
            except ProtocolError:
                pass
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < PEAK_BYTES_MAX, (message_class.__name__, version, frame)
    finally:
        tracemalloc.stop()


def test_request_headers() -> None:
    random = Random(11)
    keys = [*API_INFO, -1, 4, 93, 32767]
    for _ in range(20_000):
        key = random.choice(keys).to_bytes(2, signed=True)
        try:
            frame = memoryview(key + b"\x00" + random.randbytes(random.randrange(24)))
            api_key, *_, body_position = decode_request_header(frame)
        except ProtocolError:
            continue
        assert api_key in API_INFO
        assert body_position >= 10
