"""Classes of messages, built from their schemas: slots, keyword arguments with Kafka's defaults, `==` and `repr`.

A class is cheap to make (a process names a hundred of them at start); its `__init__` is compiled on the first call.
Structs without arrays share one frozen instance as a field's default: a Fetch response has three such fields per
partition, and nearly all stay at their default. To change one, assign a new struct.
"""

from typing import Any, ClassVar, Final, NoReturn, TypeVar, cast

from ottla.base.types import ZERO_TOPIC_ID
from ottla.wire.schema import FieldSchema, MessageSchema, StructSchema


class Message:
    """Base of every message and every nested struct."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    SCHEMA: "ClassVar[MessageSchema]"
    STRUCT: "ClassVar[StructSchema]"
    CLASSES: "ClassVar[dict[str, type[Message]]]"  # This message's own class and those of its structs, by name.
    CODECS: "ClassVar[dict[int, Any]]"  # Filled by `codec`, one per version; stays empty for nested structs.

    def __init__(self, **values: object) -> None:
        """Only the first call on a class comes here: it replaces itself by a compiled one."""
        own_class = self.CLASSES[self.STRUCT.name]
        own_class.__init__ = _compiled_init(own_class)  # type: ignore[method-assign]
        self.__init__(**values)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or self.STRUCT is not other.STRUCT:
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.STRUCT.fields)

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.STRUCT.fields)
        return f"{self.STRUCT.name}({values})"


M = TypeVar("M", bound=Message)


def build_class(schema: MessageSchema) -> type[Message]:
    """The class of a message; its nested structs are attributes of it."""
    classes: dict[str, type[Message]] = {}
    for struct in schema.all_structs():
        is_root = struct is schema.root
        attributes: dict[str, object] = dict(classes) if is_root else {}
        attributes |= {
            "__slots__": tuple(field.name for field in struct.fields),
            "__module__": "ottla.wire.api",
            "__qualname__": struct.name if is_root else f"{schema.name}.{struct.name}",
            "SCHEMA": schema,
            "STRUCT": struct,
            "CLASSES": classes,
            "CODECS": {},
        }
        classes[struct.name] = type(struct.name, (Message,), attributes)
    return classes[schema.name]


def default_source(field: FieldSchema) -> str:
    """The field's default as an expression over the names of structs, `DEFAULT_` and the name of one, and `ZERO_ID`."""
    if field.default_is_null:
        return "None"
    if field.is_array:
        return "[]"
    if field.struct is not None:
        return f"{field.type}()" if field.struct.has_arrays() else f"DEFAULT_{field.type}"
    if field.type == "uuid":
        return "ZERO_ID"
    return repr(field.default)


_FROZEN_DEFAULTS: Final[dict[type[Message], Message]] = {}


def frozen_default(struct_class: type[M]) -> M:
    """The instance that all fields of this struct share as their default."""
    default = _FROZEN_DEFAULTS.get(struct_class)
    if default is None:
        frozen_class = type(struct_class.__name__, (struct_class,), {"__slots__": ()})
        default = _FROZEN_DEFAULTS[struct_class] = frozen_class()
        frozen_class.__setattr__ = _refuse_assignment  # type: ignore[method-assign, assignment]
    return cast(M, default)


def _refuse_assignment(self: Message, name: str, _value: object) -> NoReturn:
    raise AttributeError(f"{self.STRUCT.name} is a shared default: assign a new struct instead of setting {name}")


_FRESH: Final = object()  # Stands for a default that every instance needs for itself: an empty list, or a struct.


def _compiled_init(struct_class: type[Message]) -> Any:
    struct = struct_class.STRUCT
    names: dict[str, Any] = {"ZERO_ID": ZERO_TOPIC_ID, "FRESH": _FRESH, **struct_class.CLASSES}
    parameters = []
    assignments = []
    for field in struct.fields:
        default = default_source(field)
        if default.startswith("DEFAULT_"):
            names[default] = frozen_default(struct_class.CLASSES[field.type])
        if default.endswith((")", "]")):
            parameters.append(f"{field.name}=FRESH")
            assignments.append(f"self.{field.name} = {default} if {field.name} is FRESH else {field.name}")
        else:
            parameters.append(f"{field.name}={default}")
            assignments.append(f"self.{field.name} = {field.name}")
    signature = ", ".join(["self", "*", *parameters] if parameters else ["self"])
    body = "\n    ".join(assignments or ["pass"])
    exec(compile(f"def __init__({signature}):\n    {body}\n", f"<{struct_class.__qualname__}>", "exec"), names)
    return names["__init__"]
