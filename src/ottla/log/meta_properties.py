"""`meta.properties`: whose log directory this is. Version 1, in Java's properties format, as Kafka writes it."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla.base.types import NodeId
from ottla.log.partition_metadata import decode_topic_id, encode_topic_id

FILE_NAME: Final = "meta.properties"
_VERSION: Final = "1"


class WrongDirectory(Exception):
    """The directory is not ours, or not one we understand. The node does not start: guessing could cost the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    cluster_id: str
    node_id: NodeId
    directory_id: UUID  # Tells the directories of a node apart when one is replaced (KIP-858).

    def encode(self) -> bytes:
        return (
            "#\n"
            f"cluster.id={self.cluster_id}\n"
            f"directory.id={encode_topic_id(self.directory_id)}\n"
            f"node.id={self.node_id}\n"
            f"version={_VERSION}\n"
        ).encode()

    @classmethod
    def decode(cls, data: bytes, path: str) -> "MetaProperties":
        lines = (line.strip() for line in data.decode(errors="replace").splitlines())
        fields = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "!")))
        if fields.get("version") != _VERSION:
            raise WrongDirectory(f"{path} has version {fields.get('version')}, {_VERSION} is the one we know")
        try:
            return cls(
                cluster_id=fields["cluster.id"],
                node_id=int(fields["node.id"]),
                directory_id=decode_topic_id(fields["directory.id"]),
            )
        except (KeyError, ValueError) as error:
            raise WrongDirectory(f"{path} is not complete: {error}") from None
