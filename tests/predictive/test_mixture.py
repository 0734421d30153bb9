"""The mixture over draws for every likelihood: its log probability, its moments, and where its doubt comes from."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import Tensor, distributions

from credo.core.rng import Stream
from credo.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    HeteroscedasticStudentT,
    LearnedGaussian,
    Likelihood,
    LogNormal,
    NegativeBinomial,
    Poisson,
)
from credo.predictive import ClassPredictive, NumericPredictive, Predictive, predictive

DRAWS, BATCH = 7, 4
EVEN = torch.zeros(DRAWS)
UNEVEN = torch.tensor([0.0, -1.0, 2.0, 0.5, -30.0, 1.0, 0.1], dtype=torch.float64)

LIKELIHOODS = {
    "Gaussian": (Gaussian(scale=0.4), 1),
    "Gaussian, two targets": (Gaussian(scale=0.4), 2),
    "LearnedGaussian": (LearnedGaussian(), 2),
    "HeteroscedasticGaussian": (HeteroscedasticGaussian(), 4),
    "Categorical": (Categorical(), 3),
    "Bernoulli": (Bernoulli(), 2),
    "HeteroscedasticStudentT": (HeteroscedasticStudentT(), 4),
    "LogNormal": (LogNormal(scale=0.3), 4),
    "NegativeBinomial": (NegativeBinomial(), 4),
    "Poisson": (Poisson(), 2),
}

every_likelihood = pytest.mark.parametrize(("likelihood", "outputs"), LIKELIHOODS.values(), ids=LIKELIHOODS.keys())
every_weighting = pytest.mark.parametrize("log_weights", [EVEN, UNEVEN], ids=["even", "uneven"])


def make(likelihood: Likelihood, outputs: int, log_weights: Tensor, *, apart: float = 1.0) -> Predictive:
    draws = apart * Stream(0).normal(DRAWS, BATCH, outputs, dtype=torch.float64)
    own = likelihood.parameters(outputs)
    params = {n: 0.3 * Stream(1, (n,)).normal(DRAWS, *p.shape, dtype=torch.float64) for n, p in own.items()}
    return predictive(likelihood, draws, params, log_weights)


def weights_of(log_weights: Tensor) -> np.ndarray:
    return special.softmax(log_weights.double().numpy())


def targets(prediction: Predictive) -> Tensor:
    return prediction.sample(1, seed=3)[0]


def exact(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, torch.as_tensor(theirs), rtol=1e-10, atol=1e-10)


def each_draw(prediction: Predictive, y: Tensor) -> Tensor:
    """log p(y_b | f_s) with torch.distributions, one draw and one example at a time."""
    rows = []
    for s in range(len(prediction.draws)):
        own = {name: p[s] for name, p in prediction.params.items()}
        rows.append([_log_prob(prediction.likelihood, prediction.draws[s, b], y[b], own) for b in range(BATCH)])
    return torch.tensor(rows, dtype=torch.float64)


def _log_prob(likelihood: Likelihood, outputs: Tensor, y: Tensor, own: dict[str, Tensor]) -> float:
    match likelihood:
        case Gaussian(scale=scale):
            law = distributions.Normal(outputs, torch.tensor(scale, dtype=torch.float64))
        case LearnedGaussian():
            law = distributions.Normal(outputs, own["log_scale"].exp())
        case HeteroscedasticGaussian(floor=floor):
            law = distributions.Normal(outputs[:2], torch.nn.functional.softplus(outputs[2:]) + floor)
        case HeteroscedasticStudentT(least_df=least, floor=floor):
            scale = torch.nn.functional.softplus(outputs[2:]) + floor
            law = distributions.StudentT(least + own["log_excess"].exp(), outputs[:2], scale)
        case LogNormal(floor=floor, scale=scale):
            law = distributions.LogNormal(
                scale * outputs[:2], scale * (torch.nn.functional.softplus(outputs[2:]) + floor)
            )
        case NegativeBinomial(floor=floor):
            dispersion = torch.nn.functional.softplus(outputs[2:]) + floor
            law = distributions.NegativeBinomial(1.0 / dispersion, logits=outputs[:2] + dispersion.log())
        case Poisson():
            law = distributions.Poisson(outputs.exp())
        case Bernoulli():
            law = distributions.Bernoulli(logits=outputs)
        case _:
            return float(distributions.Categorical(logits=outputs).log_prob(y))
    return float(law.log_prob(y).sum())


@every_likelihood
@every_weighting
def test_log_prob_is_the_log_of_the_mixture(likelihood, outputs, log_weights):
    prediction = make(likelihood, outputs, log_weights)
    y = targets(prediction)
    by_hand = special.logsumexp(each_draw(prediction, y).numpy(), b=weights_of(log_weights)[:, None], axis=0)
    exact(prediction.log_prob(y), by_hand)


@every_likelihood
@every_weighting
def test_the_mean_of_logs_is_something_else(likelihood, outputs, log_weights):
    """The twin that most code averages: below the log of the mixture for every example, by Jensen's inequality."""
    prediction = make(likelihood, outputs, log_weights)
    y = targets(prediction)
    mean_of_logs = weights_of(log_weights) @ each_draw(prediction, y).numpy()
    assert bool((prediction.log_prob(y) > torch.from_numpy(mean_of_logs) + 1e-3).all())


@every_weighting
def test_averaged_gaussian_parameters_are_something_else(log_weights):
    """The twin of other libraries: one normal with the members' averaged mean and scale, where disagreement is lost."""
    prediction = make(LearnedGaussian(), 1, log_weights, apart=3.0)
    weights = torch.from_numpy(weights_of(log_weights))
    mean = torch.tensordot(weights, prediction.draws, 1)
    scale = torch.tensordot(weights, prediction.params["log_scale"].exp(), 1)
    y = prediction.draws[2]  # where the heaviest draw is
    averaged = distributions.Normal(mean, scale).log_prob(y).sum(-1)
    assert bool((prediction.log_prob(y) - averaged).abs().max() > 0.5)
    torch.testing.assert_close(prediction.mean, mean)  # the mean alone would not have told them apart
    assert bool((prediction.variance > scale.square() + 0.5).all())


@every_likelihood
@every_weighting
def test_total_is_aleatoric_plus_epistemic(likelihood, outputs, log_weights):
    """The law of total variance, against the variance of the mixture from its second moment."""
    prediction = make(likelihood, outputs, log_weights)
    weights = torch.from_numpy(weights_of(log_weights))
    means = likelihood.mean(prediction.draws, prediction.params)
    variances = likelihood.variance(prediction.draws, prediction.params)
    mean = torch.tensordot(weights, means, 1)
    second = torch.tensordot(weights, variances + means.square(), 1)
    exact(prediction.mean, mean)
    exact(prediction.variance, second - mean.square())
    assert torch.equal(prediction.variance, prediction.epistemic + prediction.aleatoric)
    exact(prediction.stddev.square(), prediction.variance)
    exact(
        prediction.epistemic,
        torch.from_numpy(np.cov(means.flatten(1).numpy().T, aweights=weights, ddof=0)).diagonal().reshape(mean.shape),
    )
    assert not torch.allclose(prediction.epistemic, means.var(0), rtol=1e-3)  # the unweighted twin, or that by S - 1


@every_likelihood
@every_weighting
def test_samples_have_the_variance_that_is_claimed(likelihood, outputs, log_weights):
    """Means and variances of 50,000 samples, by z-scores with an error rate of 1e-6 over all entries."""
    count = 50_000
    prediction = make(likelihood, outputs, log_weights)
    drawn = prediction.sample(count, seed=5)
    if isinstance(likelihood, Categorical):
        assert drawn.shape == (count, BATCH)
        drawn = torch.nn.functional.one_hot(drawn, outputs).double()
    assert moments_agree(drawn, prediction.mean, prediction.variance)
    assert not moments_agree(drawn, prediction.mean, prediction.aleatoric)


def moments_agree(drawn: Tensor, mean: Tensor, variance: Tensor) -> bool:
    limit = stats.norm.isf(1e-6 / (4 * mean.numel()))
    centered = drawn - drawn.mean(0)
    error = ((centered**4).mean(0) - (centered**2).mean(0) ** 2).div(len(drawn)).sqrt().clamp_min(1e-12)
    by_mean = (drawn.mean(0) - mean) / (variance / len(drawn)).sqrt()
    by_variance = ((centered**2).mean(0) - variance) / error
    return bool((by_mean.abs() < limit).all() and (by_variance.abs() < limit).all())


@pytest.mark.parametrize("offset", [1e4, -1e6])
def test_epistemic_variance_survives_a_large_offset_in_float32(offset):
    noise = Stream(0).normal(100, 50, 1, dtype=torch.float64)
    draws = (offset + noise).float()
    prediction = predictive(Gaussian(), draws, {}, torch.zeros(100))
    truth = draws.double().var(0, correction=0)
    torch.testing.assert_close(prediction.epistemic.double(), truth, rtol=1e-5, atol=0)  # float32 has seven digits
    twin = draws.square().mean(0) - draws.mean(0).square()
    assert float(twin.min()) < 0.0 or float((twin - truth).abs().max()) > 1.0
    assert bool(prediction.stddev.isfinite().all())


def test_the_usual_formula_goes_negative():
    """E[x^2] - E[x]^2 in float32 for draws that hardly differ: the twin's standard deviation is not a number."""
    draws = (1e4 + 1e-2 * Stream(0).normal(50, 200, 1, dtype=torch.float64)).float()
    twin = draws.square().mean(0) - draws.mean(0).square()
    assert bool(twin.sqrt().isnan().any())
    prediction = predictive(Gaussian(), draws, {}, torch.zeros(50))
    assert bool((prediction.epistemic > 0).all())
    assert bool(prediction.epistemic.sqrt().isfinite().all())


@every_likelihood
def test_identical_draws_disagree_in_nothing(likelihood, outputs):
    first = make(likelihood, outputs, UNEVEN)
    draws = first.draws[:1].expand(DRAWS, BATCH, outputs).float() + 1e3 * (
        not isinstance(likelihood, Poisson | LogNormal | NegativeBinomial)
    )
    params = {name: p[:1].expand(DRAWS, -1).float() for name, p in first.params.items()}
    prediction = predictive(likelihood, draws, params, UNEVEN)
    assert float(prediction.epistemic.max()) == 0.0


@every_likelihood
@every_weighting
def test_one_draw_is_the_likelihood_itself(likelihood, outputs, log_weights):
    whole = make(likelihood, outputs, log_weights)
    params = {name: p[:1] for name, p in whole.params.items()}
    prediction = predictive(likelihood, whole.draws[:1], params, torch.tensor([-3.0]))
    y = targets(whole)
    checked = likelihood.check_targets(y, outputs)
    exact(prediction.log_prob(y), likelihood.log_prob(whole.draws[:1], checked, params)[0])
    exact(prediction.mean, likelihood.mean(whole.draws[:1], params)[0])
    assert float(prediction.epistemic.max()) == 0.0


@every_likelihood
def test_weights_are_normalized_and_zero_weight_is_no_draw(likelihood, outputs):
    few, many = make(likelihood, outputs, EVEN), make(likelihood, outputs, EVEN)
    scaled = predictive(likelihood, many.draws, many.params, EVEN + 123.0)
    exact(scaled.variance, few.variance)
    exact(scaled.weights.sum(), torch.tensor(1.0, dtype=torch.float64))
    absent = torch.tensor([0.0, 0.0, 0.0] + [-math.inf] * 4)
    three = predictive(likelihood, many.draws[:3], {n: p[:3] for n, p in many.params.items()}, torch.zeros(3))
    masked = predictive(likelihood, many.draws, many.params, absent)
    y = targets(three)
    exact(masked.log_prob(y), three.log_prob(y))
    exact(masked.variance, three.variance)


def test_weights_have_the_precision_of_the_draws():
    """Weights in float32 beside draws in float64 must not cost half of the digits."""
    prediction = make(Gaussian(), 1, torch.full((DRAWS,), -math.log(DRAWS), dtype=torch.float32))
    assert float(prediction.weights.sum() - 1.0) == pytest.approx(0.0, abs=1e-15)
    assert prediction.log_weights.dtype == torch.float64
    assert prediction.weights.tolist() == pytest.approx([1 / DRAWS] * DRAWS, rel=1e-14)


@pytest.mark.parametrize("draws", [3, 100, 1000])
def test_float32_weights_sum_to_one(draws):
    prediction = predictive(Gaussian(), torch.full((draws, 2, 1), 1e6), {}, torch.full((draws,), -math.log(draws)))
    assert prediction.mean.flatten().tolist() == pytest.approx([1e6, 1e6], rel=1e-6)
    assert float(prediction.epistemic.max()) == 0.0


def test_kinds_of_predictive():
    for likelihood, outputs in LIKELIHOODS.values():
        expected = ClassPredictive if isinstance(likelihood, Categorical | Bernoulli) else NumericPredictive
        assert isinstance(make(likelihood, outputs, EVEN), expected)
    assert len(make(Gaussian(), 1, EVEN)) == BATCH


def test_targets_are_checked():
    prediction = make(Gaussian(), 1, EVEN)
    with pytest.raises(ValueError, match="y has 3 rows and the prediction 4"):
        prediction.log_prob(torch.zeros(3))
    with pytest.raises(ValueError, match=r"2 column\(s\)"):
        prediction.log_prob(torch.zeros(4, 2))
    with pytest.raises(ValueError, match="NaN"):
        prediction.log_prob(torch.full((4,), math.nan))
    with pytest.raises(ValueError, match="class numbers from 0 to 7"):
        make(Categorical(), 3, EVEN).log_prob(torch.tensor([0, 1, 2, 7]))


def test_a_far_target_has_a_finite_log_probability():
    prediction = make(Gaussian(scale=1e-3), 1, UNEVEN)
    found = prediction.log_prob(torch.full((BATCH,), 50.0))
    assert bool(found.isfinite().all())
    assert bool((found < -1e8).all())
