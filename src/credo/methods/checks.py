"""Sentences for options that cannot be meant."""

from __future__ import annotations

import math
from collections.abc import Collection
from fnmatch import fnmatchcase


def check_at_least(name: str, value: int, smallest: int) -> None:
    if not isinstance(value, int) or value < smallest:
        raise ValueError(f"{name} must be a whole number of at least {smallest}, got {value!r}")


def check_positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} must be a positive number, got {value!r}")


def check_rate(name: str, value: float) -> None:
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name} must lie between 0 and 1 (1 excluded), got {value!r}")


def unmatched(patterns: str | Collection[str], names: Collection[str]) -> list[str]:
    """Those of some patterns, as in file names, that match none of the names."""
    listed = (patterns,) if isinstance(patterns, str) else patterns
    return [pattern for pattern in listed if not any(fnmatchcase(name, pattern) for name in names)]
