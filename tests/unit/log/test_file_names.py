import pytest

from ottla.base.types import TopicPartition
from ottla.log import file_names


def test_a_segment_is_named_by_twenty_digits() -> None:
    assert file_names.stem(1000) + file_names.LOG == "00000000000000001000.log"
    assert file_names.split_name("00000000000000001000.timeindex") == (1000, ".timeindex")


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "1000.log", "0000000000000000100x.log", ""])
def test_other_files_are_no_segments(name: str) -> None:
    assert file_names.split_name(name) is None


def test_a_directory_is_a_topic_and_a_partition() -> None:
    assert file_names.parse_directory_name("a-b-12") == TopicPartition("a-b", 12)
    assert file_names.parse_directory_name("-12") is None
    assert file_names.parse_directory_name("orders") is None
    assert file_names.parse_directory_name("orders-0.0123abcd-delete") is None


def test_the_name_of_a_deleted_partition_fits_any_file_system() -> None:
    name = file_names.deleted_directory_name(TopicPartition("t" * 249, 12), "0" * 32)
    assert len(name) == 255
    assert name.endswith(f"-12.{'0' * 32}-delete")
