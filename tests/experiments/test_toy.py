"""The six-point curve."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from credo.experiments import registry
from credo.experiments.base import Progress, Size, Verdict
from credo.experiments.runs import perform
from credo.experiments.toy.measure import measure
from credo.experiments.toy.problem import METHOD, RELU, SIGMOID, ToyProblem, curve

PROBLEM = ToyProblem.given()


def test_quick_run_finds_what_is_claimed_but_for_doubt_outside(tmp_path: Path) -> None:
    """Sigmoid units are flat outside, so there the claim differs; with ReLU units it agrees."""
    run = perform(registry.load("toy"), Size.QUICK, tmp_path, 0, Progress())
    assert {j.claim.id for j in run.judged if j.verdict is Verdict.DIFFERS} == {"outside"}
    assert {j.claim.id for j in run.judged if j.verdict is Verdict.NOT_MEASURED} == set()
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_the_tutorial_s_numbers() -> None:
    assert PROBLEM.x.squeeze(1).tolist() == pytest.approx([-2.0, -1.8, -1.0, 1.0, 1.8, 2.0])
    assert float(curve(torch.tensor(2.0, dtype=torch.float64))) == pytest.approx(-3.0 - 5 * 0.9092974268256817)
    assert (METHOD.epochs, METHOD.learning_rate, METHOD.samples, METHOD.batch_size) == (2000, 0.1, 1, None)
    for entry in (SIGMOID, RELU):
        assert sum(p.numel() for p in entry.model.network.module.parameters()) == 321


def draws(spread: Tensor) -> Tensor:
    """Two functions through the points, so far apart at the points and the grid, (407,), from each other."""
    truth = curve(torch.cat([PROBLEM.x, PROBLEM.grid]).squeeze(1).double())
    return torch.stack([truth - spread, truth + spread])


def test_measures_of_functions_that_fan_out_and_of_their_twin() -> None:
    distance = torch.cat([torch.zeros(6), PROBLEM.grid.squeeze(1).abs()]).double()
    fan, flat = measure(PROBLEM, draws(1.0 + distance)), measure(PROBLEM, draws(torch.ones(407).double()))
    assert fan.rmse == pytest.approx(0.0, abs=1e-5)  # the targets are float32
    assert fan.outside / fan.points == pytest.approx(5.0, abs=0.02)  # the mean of 1 + |x| over a grid from 3 to 5
    assert fan.gap / fan.points == pytest.approx(1.3, abs=0.02)  # likewise, up to 0.6
    assert flat.outside / flat.points == pytest.approx(1.0)
    shifted = measure(PROBLEM, draws(1.0 + distance) + 2.0)
    assert shifted.rmse == pytest.approx(2.0, abs=1e-5)  # as above
