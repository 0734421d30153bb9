"""Sentences for numbers that cannot be meant."""

from __future__ import annotations

import math


def check_at_least(name: str, value: int, smallest: int) -> None:
    if not isinstance(value, int) or value < smallest:
        raise ValueError(f"{name} must be a whole number of at least {smallest}, got {value!r}")


def check_positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} must be a positive number, got {value!r}")


def check_rate(name: str, value: float) -> None:
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name} must lie between 0 and 1 (1 excluded), got {value!r}")
