import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.topic_names import check_topic_name, collision_key, is_legal_topic_name


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "...", "-", "x" * 249, "__consumer_offsets"])
def test_legal_names(name):
    check_topic_name(name)
    assert is_legal_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "٣"])
def test_illegal_names_are_refused_with_the_reason(name):
    with pytest.raises(ApiError, match="Topic name is invalid") as refused:
        check_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not is_legal_topic_name(name)


def test_names_collide_when_only_dots_and_underscores_differ():
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a.b") != collision_key("a.c")
    assert collision_key("abc") is None
