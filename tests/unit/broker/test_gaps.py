"""docs/GAPS.md and the dispatch table: every API is in exactly one of them."""

import re
from pathlib import Path

from ottla.broker.dispatch import APIS
from ottla.wire.apis import API_INFO

GAPS = Path(__file__).parents[3] / "docs" / "GAPS.md"


def test_every_api_is_served_or_a_gap() -> None:
    section = GAPS.read_text().split("## APIs that are not served")[1].split("\n## ")[0]
    named: list[str] = []
    for row in section.splitlines():
        cells = row.split("|")
        if len(cells) > 3 and cells[1].strip() not in ("APIs", "---"):
            named += re.findall(r"\b[A-Z][A-Za-z]+\b", cells[1])
    assert len(named) == len(set(named)), "named twice"
    served = {API_INFO[key].name for key in APIS}
    known = {info.name for info in API_INFO.values()}
    assert set(named) <= known
    assert not served & set(named), "served, yet called a gap"
    assert served | set(named) == known, "neither served nor a gap"
