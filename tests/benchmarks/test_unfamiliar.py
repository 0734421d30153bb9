"""The measurement of the flag `unfamiliar`, at a small size."""

from __future__ import annotations

from unfamiliar import measure, table_of


def test_unlike_flowers_are_flagged_and_most_others_are_not() -> None:
    flagged = measure("iris", 150, 0, epochs=5)
    assert flagged["ordinary"] < 0.12  # of 45 flowers 1 % is expected, and five are three standard errors more
    assert flagged["all numbers + a million sd"] == 1.0
    assert flagged["one number 3 sd beyond the largest"] > 0.9
    assert "| iris | " in table_of([{"table": "iris", "flagged": flagged}])
