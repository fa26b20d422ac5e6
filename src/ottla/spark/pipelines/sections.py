"""One mapping of a pipeline's file against the settings that it may have: the same rules for every section."""

from collections.abc import Sequence
from typing import Any, Final

from ottla.spark.pipelines.contract import Setting
from ottla.spark.pipelines.document import Document, Place
from ottla.spark.pipelines.kinds import did_you_mean

_WORDS: Final[dict[type, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
}


def read_section(document: Document, place: Place, data: object, settings: Sequence[Setting]) -> dict[str, Any]:
    """The section with defaults filled in. What is wrong becomes a problem of the document, all at once."""
    values = {setting.name: setting.default for setting in settings}
    if not isinstance(data, dict):
        document.add_problem(place, f"{_WORDS[dict]} is needed, with {', '.join(values)}")
        return values
    for key in data:
        if key not in values:
            document.add_problem((*place, key), f"unknown key {key}{did_you_mean(key, values)}: {', '.join(values)}")
    for setting in settings:
        value = data.get(setting.name)
        if value is None:
            if setting.is_required:
                document.add_problem((*place, setting.name), f"{setting.name} is missing: {setting.doc}")
        elif reason := _wrong(setting, value):
            document.add_problem((*place, setting.name), f"{setting.name}: {reason} ({setting.doc})")
        else:
            values[setting.name] = value
    return values


def _wrong(setting: Setting, value: object) -> str | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    is_of_kind = {int: is_number, float: is_number or isinstance(value, float)}.get(
        setting.kind, isinstance(value, setting.kind)
    )
    if not is_of_kind:
        quoting = "; write it in quotes" if setting.kind is str and not isinstance(value, list | dict) else ""
        return f"{_WORDS[setting.kind]} is needed, not {value!r}{quoting}"
    if setting.choices and value not in setting.choices:
        return f"{value} is not one of {', '.join(setting.choices)}{did_you_mean(str(value), setting.choices)}"
    return None
