"""A likelihood of standardized targets is the same distribution in the units of y, wherever those lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from scipy import stats
from torch import Tensor

import credo
from credo import likelihoods, nets
from credo.likelihoods import Gaussian, HeteroscedasticGaussian, LearnedGaussian, Poisson, SharedGaussian, Standardized
from credo.likelihoods.gaussian import GaussianNoise
from credo.predictive import predictive
from credo.predictive.gaussian import OutputNormal, gaussian_predictive

CLOCK = 1_700_000_000_000_000_000.0
"""A moment in nanoseconds; float32 numbers lie 1.4e11 apart there."""
LOC, SCALE = (100.0, -3.0), (7.0, 1e-4)
Y_LOC, Y_SCALE = torch.tensor(LOC, dtype=torch.float64), torch.tensor(SCALE, dtype=torch.float64)


@dataclass(frozen=True)
class Shifted(GaussianNoise):
    """A normal likelihood of somebody's own."""

    def location_scale(self, outputs: Tensor, params: dict[str, Tensor]) -> tuple[Tensor, float]:
        return outputs + 1.0, 0.5


NOISE = [Gaussian(0.3), LearnedGaussian(), SharedGaussian(), HeteroscedasticGaussian(0.01), Shifted()]


def drawn(base: likelihoods.NumericLikelihood, dtype: torch.dtype = torch.float64) -> tuple[Tensor, dict[str, Tensor]]:
    rng = credo.Stream(0, ("standardized",))
    outputs = rng.normal(3, 8, 4 if isinstance(base, HeteroscedasticGaussian) else 2, dtype=dtype)
    return outputs, {n: rng.child(n).normal(3, *p.shape, dtype=dtype) for n, p in base.parameters(2).items()}


def mixtures(base: likelihoods.NumericLikelihood) -> tuple[credo.NumericPredictive, credo.NumericPredictive]:
    outputs, params = drawn(base)
    weights = torch.tensor([0.2, 0.3, 0.5]).double().log()
    return predictive(base, outputs, params, weights), predictive(
        Standardized(base, LOC, SCALE), outputs, params, weights
    )


@pytest.mark.parametrize("base", NOISE, ids=str)
def test_every_moment_and_quantile_moves_along(base: likelihoods.NumericLikelihood) -> None:
    before, after = mixtures(base)
    torch.testing.assert_close(after.mean, before.mean * Y_SCALE + Y_LOC, rtol=1e-12, atol=0.0)
    for part in ("epistemic", "aleatoric", "variance"):
        # of a mean of -3 with an error of 1e-4 twelve digits are left
        torch.testing.assert_close(getattr(after, part), getattr(before, part) * Y_SCALE**2, rtol=1e-9, atol=0.0)
    torch.testing.assert_close(after.quantile(0.9), before.quantile(0.9) * Y_SCALE + Y_LOC, rtol=1e-9, atol=0.0)
    torch.testing.assert_close(after.entropy, before.entropy + Y_SCALE.log(), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(after.sample(5), before.sample(5) * Y_SCALE + Y_LOC, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("base", NOISE, ids=str)
def test_densities_change_by_the_volume(base: likelihoods.NumericLikelihood) -> None:
    before, after = mixtures(base)
    z = credo.Stream(1).normal(8, 2, dtype=torch.float64)
    y = z * Y_SCALE + Y_LOC
    expected = before.log_prob(z) - Y_SCALE.log().sum()
    # y * 1e-4 - 3 in float64 keeps twelve digits of y
    torch.testing.assert_close(after.log_prob(y), expected, rtol=0.0, atol=1e-6)
    assert not torch.allclose(after.log_prob(y), before.log_prob(z), atol=0.5)  # the twin that forgets the volume
    torch.testing.assert_close(after.cdf(y), before.cdf(z), rtol=0.0, atol=1e-9)
    torch.testing.assert_close(after.survival(y), before.survival(z), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("base", NOISE[:4], ids=str)
def test_draws_are_functions_in_the_units_of_y(base: likelihoods.NumericLikelihood) -> None:
    _, after = mixtures(base)
    outputs, params = drawn(base)
    expected = base.mean(outputs, params) * Y_SCALE + Y_LOC
    torch.testing.assert_close(after.draws, expected, rtol=1e-12, atol=0.0)
    torch.testing.assert_close(after.mean, after.average(after.draws), rtol=1e-12, atol=0.0)


def test_normal_outputs_give_the_closed_form_in_the_units_of_y() -> None:
    rng = credo.Stream(2)
    root = rng.child("root").normal(1, 5, 2, 2, dtype=torch.float64)
    outputs = OutputNormal(rng.normal(1, 5, 2, dtype=torch.float64), root @ root.mT)
    params = {"log_scale": torch.tensor([[-0.5, 0.3]]).double()}
    base, weights = LearnedGaussian(), torch.zeros(1).double()
    before = gaussian_predictive(base, outputs, params, weights)
    after = gaussian_predictive(Standardized(base, LOC, SCALE), outputs, params, weights)
    torch.testing.assert_close(after.mean, before.mean * Y_SCALE + Y_LOC, rtol=1e-12, atol=0.0)
    torch.testing.assert_close(after.epistemic, before.epistemic * Y_SCALE**2, rtol=1e-9, atol=0.0)
    torch.testing.assert_close(after.aleatoric, before.aleatoric * Y_SCALE**2, rtol=1e-9, atol=0.0)
    z = credo.Stream(1).normal(5, 2, dtype=torch.float64)
    expected = before.log_prob(z) - Y_SCALE.log().sum()
    torch.testing.assert_close(
        after.log_prob(z * Y_SCALE + Y_LOC), expected, rtol=0.0, atol=1e-6
    )  # digits of y, as above


def test_a_clock_keeps_its_digits_in_single_precision() -> None:
    likelihood = Standardized(Gaussian(0.5), CLOCK, 1e6)
    outputs = torch.tensor([[[0.25]]])
    prediction = predictive(likelihood, outputs, {}, torch.zeros(1))
    assert prediction.mean.dtype == torch.float64
    assert float(prediction.mean) - CLOCK == 250_112.0  # float64 numbers lie 256 apart there
    y = torch.tensor([[CLOCK + 1e6]], dtype=torch.float64)
    expected = stats.norm.logpdf(1e6, 250_000.0, 500_000.0)
    assert float(likelihood.log_prob(outputs, y, {})) == pytest.approx(expected, abs=1e-3)  # 256 of 500,000
    assert float(prediction.log_prob(y)) == pytest.approx(expected, abs=1e-3)
    lower, upper = prediction.interval(0.9)
    assert float(upper - lower) == pytest.approx(2 * 1.645 * 0.5e6, rel=2e-3)  # likewise


@pytest.mark.parametrize(
    ("loc", "scale", "dtype"),
    [
        (0.0, 1.0, torch.float32),
        (2020.0, 5.0, torch.float32),
        (-1e6, 1.0, torch.float64),
        (0.0, 1e18, torch.float64),
        (0.0, 1e-18, torch.float64),
        (1e12, 1e10, torch.float32),
    ],
)
def test_predictions_are_as_precise_as_the_units_need(loc: float, scale: float, dtype: torch.dtype) -> None:
    prediction = predictive(
        Standardized(LearnedGaussian(), loc, scale),
        torch.ones(2, 3, 1),
        {"log_scale": torch.zeros(2, 1)},
        torch.zeros(2),
    )
    assert prediction.mean.dtype == prediction.variance.dtype == dtype
    assert bool(prediction.variance.isfinite().all())
    assert bool((prediction.variance > 0.0).all())


def test_the_sum_over_many_rows_keeps_its_digits() -> None:
    """A constant of 1e6 nats beside differences of one is what a sum in float32 forgets."""
    likelihood, y = Standardized(Gaussian(), 0.0, 1e6), torch.zeros(200_000, 1)
    near, far = (float(likelihood.log_prob(torch.full((len(y), 1), f), y, {}).sum()) for f in (0.0, 0.01))
    assert near - far == pytest.approx(0.5 * 1e-4 * len(y), rel=1e-3)  # each is one of float32
    in_single = Gaussian().log_prob(torch.zeros(len(y), 1), y, {}) - likelihood.log_volume
    assert abs(float(in_single.sum()) - near) > 0.01  # the twin that subtracts in float32


def test_numbers_made_in_inference_mode_do_not_stay_there() -> None:
    likelihood = Standardized(Gaussian(), 12.5, 3.25)
    with torch.inference_mode():
        likelihood.mean(torch.zeros(1, 1), {})
    leaf = torch.zeros(1, 1, requires_grad=True)
    likelihood.mean(leaf, {}).sum().backward()
    assert float(leaf.grad) == 3.25


def test_it_is_saved_with_its_numbers(tmp_path: Path) -> None:
    x = credo.Stream(0).normal(20, 1)
    model = credo.Model(nets.MLP(1, 2, (4,)), Standardized(LearnedGaussian(), LOC, SCALE))
    posterior = credo.fit(model, (x, torch.cat([x, x], 1) * 1e-4), credo.MAP(epochs=2))
    loaded = credo.load(posterior.save(tmp_path / "run"))
    assert loaded.model.likelihood == model.likelihood
    assert torch.equal(loaded.predict(x).mean, posterior.predict(x).mean)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="counts cannot be standardized"):
        Standardized(Poisson(), 0.0, 1.0)
    with pytest.raises(TypeError, match=r"base must be a NumericLikelihood such as likelihoods.Gaussian\(\)"):
        Standardized(likelihoods.Categorical(), 0.0, 1.0)
    with pytest.raises(ValueError, match=r"scale must be a positive number, got 0\.0"):
        Standardized(Gaussian(), 0.0, 0.0)
    with pytest.raises(ValueError, match="loc must be a finite number"):
        Standardized(Gaussian(), float("nan"), 1.0)
    with pytest.raises(ValueError, match=r"loc has 2 number\(s\) and scale 1"):
        Standardized(Gaussian(), (0.0, 1.0), 1.0)
    with pytest.raises(ValueError, match=r"y has 1 column\(s\), and 2 are standardized"):
        Standardized(Gaussian(), (0.0, 1.0), (1.0, 1.0)).check_targets(torch.zeros(3), 1)
