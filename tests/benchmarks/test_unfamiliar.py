"""The measurement of the flag `unfamiliar`, at a small size."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import unfamiliar

    yield unfamiliar
    sys.modules.pop("unfamiliar", None)


def test_unlike_flowers_are_flagged_and_most_others_are_not(script) -> None:
    flagged = script.measure("iris", 150, 0, epochs=5)
    assert (
        flagged["ordinary"] < 0.12
    )  # 45 flowers; one in a hundred is expected, and five are three standard errors more
    assert flagged["all numbers + a million sd"] == 1.0
    assert flagged["one number 3 sd beyond the largest"] > 0.9
    assert "| iris | " in script.table_of([{"table": "iris", "flagged": flagged}])
