"""What a stretch of metadata records changed, for whoever must follow: a broker opens, closes and reconfigures logs.

A delta is net: a topic that came and went in between is not in it. Lists keep the order of the records.
"""

from ottla.base.types import NodeId, TopicPartition
from ottla.metadata.image_parts import ConfigResource, TopicImage
from ottla.metadata.scram import ScramIdentity


class MetadataDelta:
    """Filled by the image's replay, then read only."""

    __slots__ = (
        "_created",
        "_deleted",
        "begun_empty",
        "brokers_changed",
        "configs_changed",
        "features_changed",
        "partitions_changed",
        "producer_ids_changed",
        "scram_changed",
        "unclean_elections",
    )

    def __init__(self) -> None:
        self._created: dict[str, TopicImage] = {}
        self._deleted: list[TopicImage] = []
        self.partitions_changed: dict[TopicPartition, TopicImage] = {}
        """New or changed partitions of topics that are not themselves created here."""
        self.configs_changed: dict[ConfigResource, None] = {}
        self.brokers_changed: dict[NodeId, None] = {}
        self.features_changed = False
        self.producer_ids_changed = False
        self.scram_changed: dict[ScramIdentity, None] = {}
        self.unclean_elections: list[TopicPartition] = []
        """Whose new leader may lack committed records. Not known of what a snapshot stands for."""
        self.begun_empty: list[TopicPartition] = []
        """Those of them whose new leader has nothing: the disk of its copy was replaced."""

    @property
    def topics_created(self) -> list[TopicImage]:
        return list(self._created.values())

    @property
    def topics_deleted(self) -> list[TopicImage]:
        """Apply deletions before creations: a name may be in both, under two topic ids."""
        return self._deleted

    @property
    def is_empty(self) -> bool:
        return not (
            self._created
            or self._deleted
            or self.partitions_changed
            or self.configs_changed
            or self.brokers_changed
            or self.features_changed
            or self.producer_ids_changed
            or self.scram_changed
        )

    def on_topic_created(self, topic: TopicImage) -> None:
        self._created[topic.name] = topic

    def on_topic_deleted(self, topic: TopicImage) -> None:
        for partition in topic.partitions:
            self.partitions_changed.pop(TopicPartition(topic.name, partition), None)
        if self._created.pop(topic.name, None) is None:
            self._deleted.append(topic)

    def on_partition_changed(self, topic: TopicImage, partition: int) -> None:
        if topic.name not in self._created:
            self.partitions_changed[TopicPartition(topic.name, partition)] = topic
