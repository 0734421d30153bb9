"""The coin experiment: its claims hold, and would not hold for a wrong posterior."""

from __future__ import annotations

from pathlib import Path

import pytest

from credo.exact import Coin
from credo.experiments import registry
from credo.experiments.base import Progress, Size, Verdict, judge
from credo.experiments.coin import measure

EXPERIMENT = registry.load("coin")


def verdicts(folder: Path) -> dict[str, Verdict]:
    outcome = EXPERIMENT.run(Size.QUICK, folder, 0, Progress())
    assert all((folder / figure.path).stat().st_size > 10_000 for figure in outcome.figures)
    return {entry.claim.id: entry.verdict for entry in judge(EXPERIMENT.card.claims, outcome)}


def test_every_claim_agrees(tmp_path: Path) -> None:
    assert set(verdicts(tmp_path).values()) == {Verdict.AGREES}


def test_a_prior_that_is_not_uniform_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "THREE", Coin(3, 0, 1.01, 1.01))
    monkeypatch.setattr(measure, "TWENTY", Coin(11, 9, 1.01, 1.01))
    wrong = {name for name, verdict in verdicts(tmp_path).items() if verdict is Verdict.DIFFERS}
    assert wrong >= {"three_heads_factor", "three_heads_probability", "twenty_tosses_mean"}


def test_a_coin_counted_wrongly_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "THREE", Coin(2, 0))
    wrong = {name for name, verdict in verdicts(tmp_path).items() if verdict is Verdict.DIFFERS}
    assert wrong == {
        "three_heads_factor",
        "three_heads_probability",
        "three_heads_grid_probability",
        "nineteen_points",
    }
