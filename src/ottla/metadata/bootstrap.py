"""The first words of a new cluster: its id and the records of an empty metadata log.

Chance comes in as `new_uuid`; ids that Kafka reserves, or that would read as a command-line option, are passed over.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Final
from uuid import UUID

from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.records import MetadataRecord
from ottla.wire import api

_RESERVED_BELOW: Final = 100
_ENCODED_LENGTH: Final = 22


def usable_uuid(new_uuid: Callable[[], UUID]) -> UUID:
    """A random id for a topic, directory or cluster."""
    while True:
        found = new_uuid()
        if found.int >= _RESERVED_BELOW and not encode_uuid(found).startswith("-"):
            return found


def encode_uuid(value: UUID) -> str:
    """22 characters of URL-safe base64, as in Kafka's files and tools."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> UUID:
    """Inverse of `encode_uuid`; `ValueError` for anything else."""
    if len(text) != _ENCODED_LENGTH:
        raise ValueError(f"an id has {_ENCODED_LENGTH} characters, {text!r} has {len(text)}")
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def new_cluster_id(new_uuid: Callable[[], UUID]) -> str:
    return encode_uuid(usable_uuid(new_uuid))


def bootstrap_records() -> list[MetadataRecord]:
    """Finalizes the features of a new cluster; metadata.version first, for it says how to read the rest."""
    return [
        api.FeatureLevelRecord(name=name, feature_level=feature.initial_level)
        for name, feature in SUPPORTED_FEATURES.items()
        if feature.initial_level > 0
    ]
