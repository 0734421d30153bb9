"""Pareto smoothing against ArviZ, which Vehtari's group maintains: with ties, few weights and weights of nothing."""

from __future__ import annotations

import math

import arviz
import pytest
import torch
from torch import Tensor

import credo
from credo.core.pareto import pareto_k, smoothed


def noise(seed: int, count: int, scale: float = 1.0) -> Tensor:
    return scale * credo.Stream(seed, ("weights",)).normal(count, dtype=torch.float64)


WEIGHTS: dict[str, Tensor] = {
    "all differ": noise(0, 2000),
    "heavy": noise(1, 2000, 1.6),
    "light": noise(2, 2000, 0.1),
    "rounded": noise(3, 2000).mul(4.0).round().div(4.0),
    "a tie at the cutoff": torch.cat([noise(4, 100) - 9.0, torch.zeros(200).double(), 1.0 + noise(5, 30).abs()]),
    "ties within the tail": torch.cat(
        [noise(6, 400), torch.full((20,), 3.0).double(), torch.full((15,), 4.0).double()]
    ),
    "every second one repeated": noise(7, 500).repeat_interleave(2),
    "a small tail over many ties": torch.cat([torch.zeros(995).double(), 1.0 + noise(8, 5)]),
    "as few as can be": noise(9, 21),
    "ties among few": torch.cat([noise(10, 20), noise(10, 5)]),
    "some weigh nothing": torch.cat([torch.full((300,), -math.inf).double(), noise(11, 700)]),
    "most weigh nothing": torch.cat([torch.full((900,), -math.inf).double(), noise(12, 100)]),
    "far apart": noise(13, 60, 1000.0),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_are_those_of_arviz(name: str) -> None:
    raw = WEIGHTS[name]
    theirs, k = arviz.psislw(raw.numpy())
    ours = smoothed(raw)
    assert ours.k == pytest.approx(float(k), rel=1e-6, abs=1e-6)
    if ours.k >= 1.0:  # they smooth tails without a mean, which we leave as they are
        assert torch.equal(ours.log_weights, raw)
        return
    # among equal weights the order is nobody's: the weights are compared by size
    expected = torch.as_tensor(theirs).sort().values
    torch.testing.assert_close(ours.log_weights.log_softmax(0).sort().values, expected, rtol=1e-6, atol=1e-6)
    assert bool((ours.log_weights[raw.argsort()].diff()[raw.sort().values.diff() > 0] >= 0).all()), "their order stays"


@pytest.mark.parametrize("few", [noise(0, 20), torch.cat([torch.zeros(996).double(), 1.0 + noise(1, 4).abs()])])
def test_too_few_to_tell(few: Tensor) -> None:
    assert smoothed(few).k == arviz.psislw(few.numpy())[1] == math.inf
    assert torch.equal(smoothed(few).log_weights, few)


def test_constant_weights_are_as_good_as_can_be() -> None:
    """ArviZ finds no tail and says infinity, the worst; but equal weights are those of a perfect proposal."""
    equal = torch.full((100,), -2.5).double()
    assert pareto_k(equal) == -math.inf
    assert torch.equal(smoothed(equal).log_weights, equal)
    assert pareto_k(torch.linspace(-1e-17, 0.0, 100).double()) == -math.inf, "up to rounding"
    bounded = torch.cat([noise(0, 100), torch.full((100,), 9.0).double()])
    assert pareto_k(bounded) == -math.inf, "half of all weights share the bound"


@pytest.mark.parametrize("wrong", [math.inf, math.nan])
def test_weights_that_are_no_numbers_are_never_relied_on(wrong: float) -> None:
    raw = noise(0, 100)
    raw[3] = wrong
    assert pareto_k(raw) == math.inf
    assert pareto_k(torch.full((100,), -math.inf)) == math.inf
