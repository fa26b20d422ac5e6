"""What a consumer subscribes to, and who is told when a group moves partitions."""

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from ottla.base.types import TopicPartition
from ottla.client.text import c_texts

Topics: TypeAlias = str | re.Pattern[str] | Iterable[str]
RebalanceListener: TypeAlias = Callable[[list[TopicPartition]], None]


def topic_names(topics: Topics) -> list[str]:
    """As librdkafka takes them: a name that begins with ^ is a regular expression."""
    match topics:
        case str():
            names = [topics]
        case re.Pattern(pattern=pattern):
            names = [pattern if pattern.startswith("^") else f"^{pattern}"]
        case _:
            names = list(topics)
    return c_texts(names, "the topic")
