"""Text on its way into librdkafka, which takes C strings: what can be none is refused before it gets there.

confluent-kafka does not ask whether a name could be encoded. A lone surrogate, as JSON's "\\ud800" or an argument that is
not UTF-8 gives it, ends the process in most of its calls, and what follows a NUL is lost in silence. Where its own
answer is a `UnicodeEncodeError`, a `ValueError` too, that is left to it.
"""

from collections.abc import Iterable


def c_text(text: str, what: str) -> str:
    """The text itself. `what` names it where it is refused, such as "the topic"."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} {text!r} is no UTF-8 text: it has a lone surrogate") from None
    if "\0" in text:
        raise ValueError(f"{what} {text!r} has a NUL in it")
    return text


def c_texts(texts: Iterable[str], what: str) -> list[str]:
    return [c_text(text, what) for text in texts]
