"""Percentiles by rank: a value that was measured, never one between two."""

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that `share` percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)]
