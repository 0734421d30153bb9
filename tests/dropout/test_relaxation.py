"""The concrete relaxation: its limit, its probabilities, and its slope by the rate against all masks one by one.

Statistical assertions have an error rate of 1e-6 each, and the seeds are fixed.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
from scipy import stats
from torch import Tensor

from credo import Stream
from credo.nets.concrete import bernoulli_entropy, concrete_masks, relaxed_bernoulli
from credo.nets.dropout import Site

ERROR_RATE = 1e-6
LIMIT = float(stats.norm.isf(ERROR_RATE / 2))
COUNT = 100_000


def samples(keep: float, temperature: float) -> Tensor:
    uniform = torch.rand(COUNT, generator=Stream(0).generator(), dtype=torch.float64)
    return relaxed_bernoulli(torch.logit(torch.tensor(keep, dtype=torch.float64)), uniform, temperature)


def is_fair(values: Tensor, keep: float) -> bool:
    return float(stats.binomtest(int((values > 0.5).sum()), len(values), keep).pvalue) > ERROR_RATE


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_samples_become_bernoulli_as_the_temperature_falls(keep: float) -> None:
    between = [float(((s > 0.01) & (s < 0.99)).double().mean()) for s in (samples(keep, t) for t in (1.0, 0.1, 0.01))]
    assert between[0] > 3 * between[1] > 9 * between[2]
    cold = samples(keep, 0.001)
    assert is_fair(cold, keep)
    assert not is_fair(cold, keep + 0.02)
    z = (float(cold.mean()) - keep) / (keep * (1 - keep) / COUNT) ** 0.5
    assert abs(z) < LIMIT


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_at_any_temperature_the_odds_of_being_above_one_half_are_those_to_keep(temperature: float) -> None:
    assert is_fair(samples(0.7, temperature), 0.7)


def test_entropy_is_that_of_a_bernoulli() -> None:
    logits = torch.linspace(-8, 8, 33, dtype=torch.float64)
    torch.testing.assert_close(bernoulli_entropy(logits), torch.distributions.Bernoulli(logits=logits).entropy())


X = torch.tensor([[0.3, -1.2, 0.8], [1.0, 0.4, -0.5]], dtype=torch.float64)
OUT = torch.tensor([0.9, -0.6, 1.3], dtype=torch.float64)


def loss(masks: Tensor) -> Tensor:
    """Some smooth function of masks (..., 2, 3) that is not symmetric in the units, one mask for each example."""
    hidden = torch.tanh(X * 1.5) * masks
    return (torch.tanh((hidden * OUT).sum(-1)) - 0.4).square().sum(-1)


def by_all_masks(keep: Tensor) -> Tensor:
    """d/dkeep of the expected loss, by the probability of every mask; keep (3,) is shared by the examples."""
    keep = keep.clone().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for bits in product((0.0, 1.0), repeat=6):
        z = torch.tensor(bits, dtype=torch.float64).reshape(2, 3)
        total = total + (z * keep + (1 - z) * (1 - keep)).prod() * loss(z / keep)
    return torch.autograd.grad(total, keep)[0]


def by_relaxation(keep: Tensor, temperature: float, count: int = 40_000) -> tuple[Tensor, Tensor]:
    """The mean of the slopes through relaxed masks, and its standard error."""
    logit = torch.logit(keep).expand(count, 1, 3).clone().requires_grad_()
    (masks,) = concrete_masks([Site((2, 3), 0, 1, 0.5, False)], [logit], Stream(1), 2, temperature)
    (slopes,) = torch.autograd.grad(loss(masks).sum(), logit)
    by_keep = slopes[:, 0] / (keep * (1 - keep))
    return by_keep.mean(0), by_keep.std(0) / count**0.5


def agrees(keep: Tensor, slope: Tensor, error: Tensor) -> bool:
    # beside the noise, the relaxation itself is off by about 1 % of the slope at this temperature
    truth = by_all_masks(keep)
    return bool(((slope - truth).abs() < LIMIT * error + 0.02 * truth.abs()).all())


def test_the_slope_by_the_rate_is_that_of_all_masks() -> None:
    """Twins: a slope that forgets that masks are divided by keep, and one of the opposite sign."""
    keep = torch.tensor([0.3, 0.6, 0.8], dtype=torch.float64)
    slope, error = by_relaxation(keep, 0.05)
    assert agrees(keep, slope, error)
    assert not agrees(keep, -slope, error)
    uniform = torch.rand(40_000, 2, 3, generator=Stream(2).generator(), dtype=torch.float64)
    logit = torch.logit(keep).expand(40_000, 1, 3).clone().requires_grad_()
    undivided = relaxed_bernoulli(logit, uniform, 0.05) / keep
    (forgetful,) = torch.autograd.grad(loss(undivided).sum(), logit)
    assert not agrees(keep, forgetful[:, 0].mean(0) / (keep * (1 - keep)), error)
