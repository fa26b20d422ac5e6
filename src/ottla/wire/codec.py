"""`codec_for(message class, version)`: bytes ↔ messages, each half compiled when it is first used.

A broker mostly decodes requests and encodes responses, so the other halves are never compiled. Compiled functions
stay in the class's table; looking one up is a dictionary access.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from ottla.base.errors import ProtocolError, invariant
from ottla.wire.decoding import decoder_source
from ottla.wire.encoding import encoder_source
from ottla.wire.message import Message
from ottla.wire.source import Source

M = TypeVar("M", bound=Message)


class Codec(Generic[M]):
    """One message at one version."""

    __slots__ = ("decode", "encode_into", "message_class", "version")

    decode: Callable[[memoryview, int], tuple[M, int]]
    """(view, position) → (message, position after it). Raises `ProtocolError`, whatever the bytes are."""

    encode_into: Callable[[M, bytearray], None]
    """Appends the message. Raises `ValueError` for a value that the message cannot carry."""

    def __init__(self, message_class: type[M], version: int) -> None:
        self.message_class = message_class
        self.version = version
        self.decode = self._compile_and_decode
        self.encode_into = self._compile_and_encode

    def encode(self, message: M) -> bytes:
        out = bytearray()
        self.encode_into(message, out)
        return bytes(out)

    def _compile_and_decode(self, view: memoryview, position: int) -> tuple[M, int]:
        self.decode = _compiled(decoder_source(self.message_class, self.version), "decode", self)
        return self.decode(view, position)

    def _compile_and_encode(self, message: M, out: bytearray) -> None:
        self.encode_into = _compiled(encoder_source(self.message_class, self.version), "encode_into", self)
        self.encode_into(message, out)


def codec_for(message_class: type[M], version: int) -> Codec[M]:
    codec = message_class.CODECS.get(version)
    if codec is None:
        invariant(message_class.STRUCT is message_class.SCHEMA.root, "a struct has no codec", struct=message_class)
        heading = message_class.SCHEMA.heading
        if not heading.versions.includes(version):
            raise ProtocolError(f"{heading.name} has no version {version}")
        codec = message_class.CODECS[version] = Codec(message_class, version)
    return cast("Codec[M]", codec)  # In quotes: at run time it would be made anew for every message.


def _compiled(source: Source, function_name: str, codec: "Codec[Any]") -> Any:
    file_name = f"<{codec.message_class.__name__} v{codec.version} {function_name}>"
    module: dict[str, object] = {}
    exec(compile(source.text(), file_name, "exec"), module)
    return module[function_name]
