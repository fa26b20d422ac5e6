"""The message classes, by Kafka's names: `api.FetchRequest`, `api.FetchRequest.FetchTopic`, `api.TopicRecord`.

Each is built from `ottla.wire.definitions` when it is first named. Fields are the union over all versions, in
snake_case; a codec drops what its version does not have. `api.pyi` beside this file tells mypy every class and field:
`python -m ottla.wire.stub` writes it.
"""

from ottla.wire import definitions
from ottla.wire.message import Message, build_class
from ottla.wire.notation import parse_message


def __getattr__(name: str) -> type[Message]:
    text = definitions.texts().get(name)
    if text is None:
        raise AttributeError(f"no message is called {name}")
    built = globals()[name] = build_class(parse_message(text))
    return built


def __dir__() -> list[str]:
    return sorted(definitions.texts())
