"""What lies in checkpoints for ever."""

import json

import pytest

from ottla.base.types import TopicPartition
from ottla.spark.stream_position import StreamPosition

POSITION = StreamPosition(
    offsets={TopicPartition("b", 1): 7, TopicPartition("a", 10): 3, TopicPartition("a", 2): 0},
    topic_ids={"b": "02", "a": "01"},
)
LAYOUT = '{"version": 1, "topics": {"a": {"2": 0, "10": 3}, "b": {"1": 7}}, "ids": {"a": "01", "b": "02"}}'


def test_the_layout_is_this_one() -> None:
    assert json.dumps(POSITION.to_json()) == LAYOUT


def test_it_is_read_back() -> None:
    assert StreamPosition.from_json(json.loads(LAYOUT)) == POSITION


def test_a_newer_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="a newer Ottla wrote it"):
        StreamPosition.from_json({"version": 2})
