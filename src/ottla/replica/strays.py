"""Directories on disk that are of no partition of this node: their topic was deleted, or moved away, while it was down.

Perhaps another topic has the name by now. Such a directory is set aside under a name that ends in `-stray`, and kept
until a person deletes it, as in Kafka: should the metadata be what is wrong, nothing is lost. It is touched only if the
image is known to be newer than the directory (`Partitions.load`, `is_current`), and only if it says itself, by its topic
id, that it is of no partition of ours. Anything else is named and left alone. Everything here blocks.
"""

import logging

from ottla.base.types import NodeId, TimestampMs, TopicId, TopicPartition
from ottla.log.directory import LogDirectory
from ottla.metadata.image import MetadataImage

logger = logging.getLogger(__name__)


def former_topic_id(
    directory: LogDirectory, place: TopicPartition, image: MetadataImage, node_id: NodeId
) -> TopicId | None:
    """Whose directory it was, if an image that is newer says beyond doubt that it is of no partition of ours."""
    topic_id = directory.topic_id_of(place)
    topic = None if topic_id is None else image.topics_by_id.get(topic_id)
    if topic is None:
        return topic_id
    partition = topic.partitions.get(place.partition)
    return topic_id if partition is None or node_id not in partition.replicas else None


def set_aside(directory: LogDirectory, place: TopicPartition, topic_id: TopicId, now_ms: TimestampMs) -> None:
    # With the time: a partition may leave this node, come back and leave again.
    name = directory.set_aside(place, f"{topic_id.hex}-{now_ms}")
    logger.warning(
        "directory %s in %s is of topic id %s, which was deleted or is no longer of this node: it is kept as %s; "
        "delete that when nobody misses what it holds", place, directory.path, topic_id, name
    )  # fmt: skip


def name_former(directory: LogDirectory) -> None:
    """With every start, until somebody has deleted them."""
    names = directory.find_strays()
    if names:
        logger.warning(
            "%s holds %d directories that were set aside and are of no use to this node: %s",
            directory.path, len(names), ", ".join(names)
        )  # fmt: skip
