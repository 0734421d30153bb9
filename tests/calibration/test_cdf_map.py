"""The map of the distribution function: density, quantiles and moments agree, and what it promises comes true."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch import Tensor

from calibration_problems import Regression, mixture_of
from credo import likelihoods, metrics
from credo.calibration import CdfMap, MappedPredictive
from credo.core.rng import Stream
from credo.likelihoods import Gaussian, HeteroscedasticGaussian, Poisson, Standardized
from credo.predictive import NumericPredictive, OutputNormal, Predictive, gaussian_predictive, predictive


def map_of(loc: float, scale: float, skew: float, tail: float) -> CdfMap:
    return CdfMap(*(torch.tensor([value], dtype=torch.float64) for value in (loc, scale, skew, tail)))


IDENTITY, ODD = map_of(0.0, 1.0, 0.0, 1.0), map_of(0.3, 0.6, 0.4, 0.8)
DRAWS = Stream(0).normal(5, 4, 1, dtype=torch.float64)
SEPARATE = torch.tensor([0.0, 10.0], dtype=torch.float64).view(2, 1, 1)


def mapped(calibrator: CdfMap, prediction: Predictive) -> MappedPredictive:
    found = calibrator.apply(prediction)
    assert isinstance(found, MappedPredictive)
    return found


@pytest.mark.parametrize(
    "prediction",
    [
        mixture_of(Gaussian(scale=0.5), DRAWS),
        mixture_of(Gaussian(scale=0.01), SEPARATE),
        mixture_of(HeteroscedasticGaussian(), Stream(1).normal(6, 3, 4, dtype=torch.float64)),
        mixture_of(Standardized(Gaussian(scale=0.5), (1e6,), (1e-2,)), DRAWS),
        mixture_of(Poisson(), DRAWS),
    ],
    ids=["mixture", "separate", "two noisy targets", "scaled", "counts"],
)
def test_the_identity_changes_nothing(prediction: NumericPredictive) -> None:
    targets = prediction.mean.shape[-1]
    same = mapped(CdfMap(*(t.repeat(targets) for t in vars(IDENTITY).values())), prediction)
    for name in ("mean", "epistemic", "aleatoric", "entropy", "expected_entropy"):
        # integrals to 1e-6 of a standard deviation, and the digits of 1e6
        torch.testing.assert_close(getattr(same, name), getattr(prediction, name), rtol=1e-6, atol=1e-6, msg=name)
    y = prediction.sample(1)[0]
    torch.testing.assert_close(same.log_prob(y), prediction.log_prob(y), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(same.quantile(0.9), prediction.quantile(0.9))
    if not prediction.likelihood.discrete:
        joint = prediction.joint_log_prob(y).float()
        torch.testing.assert_close(same.joint_log_prob(y).float(), joint, rtol=1e-6, atol=1e-5)  # a sum over all
    torch.testing.assert_close(same.cdf(y), prediction.cdf(y))


def test_density_moments_and_entropy_are_of_one_distribution() -> None:
    prediction = mapped(ODD, mixture_of(Gaussian(scale=0.5), DRAWS))
    grid = torch.linspace(-40, 40, 4001, dtype=torch.float64)
    step = float(grid[1] - grid[0])
    p = torch.stack([prediction.log_prob_each(y.expand(4, 1)) for y in grid]).exp()
    y = grid.view(-1, 1, 1)
    mean = (p * y).sum(0) * step
    # the trapezoidal rule on this grid, and the mass beyond it, leave less than 1e-5
    torch.testing.assert_close(p.sum(0) * step, torch.ones(4, 1, dtype=torch.float64), rtol=0, atol=1e-5)
    torch.testing.assert_close(prediction.mean, mean, rtol=0, atol=1e-5)
    torch.testing.assert_close(prediction.variance, (p * (y - mean).square()).sum(0) * step, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(prediction.entropy, torch.special.entr(p).sum(0) * step, rtol=0, atol=1e-5)
    cdf = prediction.cdf(torch.full((4, 1), 0.7, dtype=torch.float64))
    below = (p * (y <= 0.7)).sum(0) * step
    torch.testing.assert_close(cdf, below, rtol=0, atol=step)  # the grid cuts one cell
    torch.testing.assert_close(prediction.cdf(prediction.quantile(0.9)), torch.full_like(cdf, 0.9))


def test_moments_of_many_ragged_components() -> None:
    """A hundred normals whose widths differ a hundredfold; between so many knots a rule of two points is used."""
    base = mixture_of(HeteroscedasticGaussian(), 2.0 * Stream(2).normal(100, 5, 2, dtype=torch.float64))
    same, scale = mapped(IDENTITY, base), base.stddev
    # measured: 3e-4 standard deviations and 5e-4 of the variance at most over 60 inputs
    assert ((same.mean - base.mean) / scale).abs().max() < 2e-3
    assert ((same.epistemic - base.epistemic) / scale.square()).abs().max() < 4e-3
    assert ((same.variance - base.variance) / scale.square()).abs().max() < 4e-3


def test_one_component_is_all_noise_and_separate_ones_all_doubt() -> None:
    alone = mapped(ODD, mixture_of(Gaussian(scale=0.5), DRAWS[:1]))
    assert alone.epistemic.abs().max() < 1e-12
    apart = mapped(ODD, mixture_of(Gaussian(scale=1e-3), SEPARATE))
    assert apart.aleatoric.item() < 1e-4 * apart.epistemic.item()
    # the part of the mass at 10 is 1 - g(1/2), and its variance that of two points
    part = float(apart.survival(torch.tensor([[5.0]], dtype=torch.float64)))
    assert apart.epistemic.item() == pytest.approx(100 * part * (1 - part), rel=1e-3)  # components have a width
    assert apart.mean.item() == pytest.approx(10 * part, abs=0.01)


def test_normal_outputs_keep_their_part_of_the_doubt() -> None:
    mean = torch.zeros(1, 3, 1, dtype=torch.float64)
    outputs = OutputNormal(mean, torch.full((1, 3, 1, 1), 3.0, dtype=torch.float64))
    base = gaussian_predictive(Gaussian(scale=1.0), outputs, {}, torch.zeros(1, dtype=torch.float64))
    same, wider = mapped(IDENTITY, base), mapped(map_of(0.0, 0.5, 0.0, 1.0), base)
    torch.testing.assert_close(same.epistemic, base.epistemic, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(wider.epistemic, 4.0 * base.epistemic, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(wider.aleatoric, 4.0 * base.aleatoric, rtol=1e-6, atol=1e-6)


def test_samples_follow_the_distribution_function() -> None:
    prediction = mapped(ODD, mixture_of(Gaussian(scale=0.5), DRAWS))
    drawn = prediction.sample(400)
    uniform = torch.stack([prediction.cdf(y) for y in drawn]).flatten(1)
    # Kolmogorov and Smirnov at an error rate of 1e-4 for each of four inputs
    assert min(stats.kstest(column, "uniform").pvalue for column in uniform.T.numpy()) > 1e-4


def test_counts_stay_whole_and_sum_to_one() -> None:
    prediction = mapped(map_of(0.2, 0.5, 0.1, 0.9), mixture_of(Poisson(), DRAWS))
    k = torch.arange(0, 600, dtype=torch.float64)
    p = torch.stack([prediction.log_prob_each(each.expand(4, 1)) for each in k]).exp()
    torch.testing.assert_close(p.sum(0), torch.ones(4, 1, dtype=torch.float64))
    torch.testing.assert_close(prediction.mean, (p * k.view(-1, 1, 1)).sum(0), rtol=1e-6, atol=1e-6)
    lower, upper = prediction.interval(0.9)
    assert torch.equal(lower, lower.round())
    assert torch.equal(upper, upper.round())
    assert bool((lower >= 0).all())
    assert torch.equal(prediction.sample(5), prediction.sample(5).round())


def test_several_targets_keep_their_dependence() -> None:
    """The joint density integrates to one where the two targets depend on each other through the draws."""
    draws = torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=torch.float64).unsqueeze(1)
    calibrator = CdfMap(
        *(torch.tensor(v, dtype=torch.float64) for v in ([0.2, 0.0], [0.8, 1.3], [0.1, 0.0], [0.9, 1.1]))
    )
    grid = torch.linspace(-12, 12, 161, dtype=torch.float64)
    points = torch.cartesian_prod(grid, grid)
    prediction = mapped(calibrator, mixture_of(Gaussian(scale=0.6), draws.expand(2, len(points), 2)))
    total = prediction.log_prob(points).exp().sum() * float(grid[1] - grid[0]) ** 2
    assert total.item() == pytest.approx(1.0, abs=1e-4)  # the grid
    one = mapped(calibrator, mixture_of(Gaussian(scale=0.6), draws))
    torch.testing.assert_close(one.joint_log_prob(points[:1]), one.log_prob(points[:1])[0])
    independent = prediction.log_prob_each(points).sum(-1)
    assert (prediction.log_prob(points) - independent).abs().max() > 0.5


def test_the_score_of_a_calibrated_prediction_is_its_own() -> None:
    """The closed form for normal mixtures must not be taken for what is no such mixture any more."""
    base, y = mixture_of(Gaussian(scale=0.5), DRAWS), DRAWS.mean(0)
    same, wide = mapped(IDENTITY, base), mapped(map_of(0.0, 0.2, 0.0, 1.0), base)
    assert metrics.crps(same, y) == pytest.approx(metrics.crps(base, y), rel=1e-5)  # quadrature
    assert metrics.crps(wide, y) > 2 * metrics.crps(base, y)
    grid = torch.linspace(-30, 30, 6001, dtype=torch.float64)
    cdf = torch.stack([wide.cdf(z.expand(4, 1)) for z in grid])
    integral = (cdf - (grid.view(-1, 1, 1) >= y).double()).square().sum(0) * float(grid[1] - grid[0])
    assert metrics.crps(wide, y) == pytest.approx(float(integral.mean()), rel=1e-3)  # the grid


def held(problem: Regression, calibrator: CdfMap, level: float, name: str) -> Tensor:
    x, y = problem.rows(300, name)
    lower, upper = mapped(calibrator, problem.predict(x)).interval(level)
    return ((y >= lower) & (y <= upper)).double().mean()


LEVELS = (0.5, 0.9, 0.98)
REPEATS = 25


def coverages(on_training_rows: bool) -> Tensor:
    found = []
    for repeat in range(REPEATS):
        problem = Regression(Stream(repeat, ("map",)))
        x, y = problem.train if on_training_rows else problem.rows(300, "calibration")
        calibrator = CdfMap.of(problem.predict(x), y)
        found.append(torch.stack([held(problem, calibrator, level, "new") for level in LEVELS]))
    return torch.stack(found).mean(0)


def test_intervals_of_every_level_come_true_under_heavy_tails() -> None:
    # a standard error of sqrt(p (1 - p) (1 / 300 + 1 / 300) / 25) is at most 0.008; four of them, and 0.01 for a family
    # of four numbers that need not hold the truth
    for level, found in zip(LEVELS, coverages(on_training_rows=False).tolist(), strict=True):
        assert found == pytest.approx(level, abs=0.042)


def test_the_same_check_rejects_a_map_fitted_to_training_rows() -> None:
    found = coverages(on_training_rows=True)
    assert found[0] < 0.5 - 0.042
    assert found[1] < 0.9 - 0.042


def test_a_map_raises_the_log_likelihood_of_new_rows() -> None:
    problem = Regression(Stream(7))
    x, y = problem.rows(500, "calibration")
    calibrator = CdfMap.of(problem.predict(x), y)
    x, y = problem.rows(2000, "new")
    gain = metrics.log_likelihood(mapped(calibrator, problem.predict(x)), y)
    assert gain > metrics.log_likelihood(problem.predict(x), y) + 0.1


def test_few_rows_and_absurd_ones_leave_finite_numbers() -> None:
    means = torch.zeros(1, 1, 1, dtype=torch.float64)
    for y in (0.0, 3.0, 30.0, -30.0):
        calibrator = CdfMap.of(mixture_of(Gaussian(scale=1.0), means), torch.tensor([[y]]))
        prediction = mapped(calibrator, mixture_of(Gaussian(scale=1.0), means))
        lower, upper = prediction.interval(0.95)
        assert bool(lower.isfinite() & upper.isfinite() & (lower < upper))
        assert bool(prediction.variance.isfinite())
    many = mixture_of(Gaussian(scale=1.0), torch.zeros(1, 40, 1, dtype=torch.float64))
    outlier = mapped(CdfMap.of(many, torch.tensor([1e9, *[0.5, -0.5] * 19, 0.0])), many).interval(0.9)
    assert bool((outlier[1] - outlier[0]).isfinite().all())
    with pytest.raises(ValueError, match="100% of the targets lie more than 37 standard deviations"):
        CdfMap.of(mixture_of(Gaussian(scale=1.0), means), torch.tensor([[1e9]]))
    with pytest.raises(ValueError, match="NaN"):
        CdfMap.of(mixture_of(Gaussian(scale=1.0), means * torch.nan), torch.zeros(1, 1))


def test_moments_of_mapped_log_normals_are_those_of_their_quantiles() -> None:
    draws = 0.4 * Stream(0).normal(10, 20, 2).double()
    base = predictive(likelihoods.LogNormal(loc=1.0, scale=0.7), draws, {}, torch.zeros(10))
    assert isinstance(base, NumericPredictive)
    found = map_of(0.1, 0.9, 0.1, 0.95).apply(base)
    z = torch.linspace(-7.0, 7.0, 400, dtype=torch.float64)
    weights = (-0.5 * z.square()).softmax(0).view(-1, 1, 1)
    places = torch.stack([found.at_normal_score(float(each)) for each in z])
    mean = (weights * places).sum(0)
    variance = (weights * (places - mean).square()).sum(0)
    torch.testing.assert_close(found.mean, mean, rtol=1e-6, atol=0.0)
    torch.testing.assert_close(found.stddev.square(), variance, rtol=1e-3, atol=0.0)  # the tail beyond 7 is heavy
    same = map_of(0.0, 1.0, 0.0, 1.0).apply(base)
    torch.testing.assert_close(same.mean, base.mean, rtol=1e-7, atol=0.0)
    torch.testing.assert_close(same.stddev, base.stddev, rtol=1e-6, atol=0.0)
