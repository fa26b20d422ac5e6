"""What differs between two images, as the delta that would lead from one to the other.

A node that was behind for long gets a snapshot instead of the records it missed; whoever follows the image hears of the
change as of any other (`runtime.py`).
"""

from typing import TypeVar

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import TopicImage

Key = TypeVar("Key")
Value = TypeVar("Value")


def difference(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
    delta = MetadataDelta()
    for topic in old.topics.values():
        if topic.id not in new.topics_by_id:
            delta.on_topic_deleted(topic)
    for topic in new.topics.values():
        known = old.topics_by_id.get(topic.id)
        if known is None:
            delta.on_topic_created(topic)
        else:
            _compare_partitions(delta, known, topic)
    delta.configs_changed = _changed_keys(old.configs, new.configs)
    delta.brokers_changed = _changed_keys(old.brokers, new.brokers)
    delta.features_changed = old.features != new.features
    delta.producer_ids_changed = old.next_producer_id != new.next_producer_id
    delta.scram_changed = _changed_keys(old.scram_credentials, new.scram_credentials)
    return delta


def _compare_partitions(delta: MetadataDelta, old: TopicImage, new: TopicImage) -> None:
    for number, partition in new.partitions.items():
        if old.partitions.get(number) != partition:
            delta.on_partition_changed(new, number)


def _changed_keys(old: dict[Key, Value], new: dict[Key, Value]) -> dict[Key, None]:
    """Those that came, went, or stand for another value."""
    return {key: None for key in {**old, **new} if old.get(key) != new.get(key)}
