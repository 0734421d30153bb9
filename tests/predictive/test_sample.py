"""Samples: one draw for all inputs of a sample, seeds that count, a fresh sample each time."""

import pytest
import torch
from scipy import stats

from credo.core.rng import Stream
from credo.likelihoods import Categorical, Gaussian, LearnedGaussian, Poisson
from credo.predictive import predictive


def far_apart(weights: list[float]):
    """Draw s is 100 s everywhere, so a sample shows which draw it came from."""
    draws = 100.0 * torch.arange(len(weights)).reshape(-1, 1, 1).expand(-1, 6, 2)
    return predictive(Gaussian(scale=0.1), draws, {}, torch.tensor(weights).log())


def test_a_sample_is_one_function():
    """A sample that picks a draw for each input anew (the twin) would mix them within a row."""
    drawn = far_apart([0.2, 0.5, 0.3]).sample(500)
    assert drawn.shape == (500, 6, 2)
    origin = (drawn / 100).round()
    assert bool((origin == origin[:, :1, :1]).all())
    twin = torch.randint(0, 3, (500, 6), generator=torch.Generator().manual_seed(0))
    assert not bool((twin == twin[:, :1]).all())


def test_draws_come_as_often_as_they_weigh():
    weights = [0.2, 0.5, 0.3]
    origin = (far_apart(weights).sample(5000)[:, 0, 0] / 100).round().long()
    observed = torch.bincount(origin, minlength=3).numpy()
    assert stats.chisquare(observed, [5000 * w for w in weights]).pvalue > 1e-6
    assert stats.chisquare(observed, [5000 / 3] * 3).pvalue < 1e-6


def test_noise_differs_between_inputs_targets_and_samples():
    drawn = far_apart([1.0]).sample(50)
    assert len(drawn.unique()) == drawn.numel()


def test_seeds():
    prediction = far_apart([0.5, 0.5])
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert torch.equal(prediction.sample(10, seed=1), prediction.sample(10, seed=1))
    assert not torch.equal(prediction.sample(10, seed=1), prediction.sample(10, seed=2))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_noise_of_a_draw_goes_with_it():
    draws = torch.zeros(2, 3, 1)
    params = {"log_scale": torch.tensor([[-20.0], [5.0]])}
    drawn = predictive(LearnedGaussian(), draws, params, torch.zeros(2)).sample(200)
    small = drawn.abs() < 1e-4
    assert 60 < int(small.all(1).sum()) < 140
    assert bool((small.all(1) | ~small.any(1)).all())


def test_kinds_of_targets():
    counts = predictive(Poisson(), Stream(0).normal(3, 4, 2), {}, torch.zeros(3)).sample(7)
    assert counts.shape == (7, 4, 2)
    assert torch.equal(counts, counts.round())
    classes = predictive(Categorical(), Stream(0).normal(3, 4, 5), {}, torch.zeros(3)).sample(7)
    assert classes.shape == (7, 4)
    assert classes.dtype == torch.int64


@pytest.mark.parametrize("count", [0, -3])
def test_counts_are_checked(count):
    with pytest.raises(ValueError, match="count must be a whole number of at least 1"):
        far_apart([1.0]).sample(count)
