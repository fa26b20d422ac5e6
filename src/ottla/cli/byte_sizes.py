"""Amounts of bytes as people type them: `10485760`, `10MB`, `10MiB/s`."""

import re
from typing import Final

import typer

UNITS: Final[dict[str, int]] = {"": 1, "b": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for suffix, base in (("", 1024), ("ib", 1024), ("b", 1000))
}


def parse_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower().removesuffix("/s"))
    if match is None or match[2] not in UNITS or (amount := round(float(match[1]) * UNITS[match[2]])) < 1:
        raise ValueError(f"{text!r} is not an amount of bytes such as 500kB, 10MB or 1GiB")
    return amount


def rate_option(text: str | None) -> int | None:
    """Of `--throttle`."""
    try:
        return None if text is None else parse_bytes(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--throttle") from error
