import pytest
import typer

from ottla.cli.options import checked_servers, examples, key_values, unescaped


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert key_values(["a=1", " b =x=y", "c="], "--set") == {"a": "1", "b": "x=y", "c": ""}
    assert key_values(None, "--set") == {}


@pytest.mark.parametrize("pair", ["a", "=1", " =1", ""])
def test_what_is_no_pair_is_a_usage_error(pair: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not KEY=VALUE"):
        key_values([pair], "--set")


def test_servers_are_checked_before_anything_is_tried() -> None:
    assert checked_servers("a:1,b") == "a:1,b"
    with pytest.raises(typer.BadParameter, match="is not host:port"):
        checked_servers("a:1,,b")


def test_escapes_of_single_quoted_shell_words() -> None:
    assert unescaped(r"\t|\n|\r|\0|\\t|\x") == "\t|\n|\r|\0|\\t|\\x"


def test_examples_keep_brackets_as_they_are() -> None:
    assert r"\[bold]" in examples(("one", "echo '[bold]'"))
