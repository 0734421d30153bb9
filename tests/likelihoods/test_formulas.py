"""Every likelihood against torch.distributions and scipy, in float64, with and without axes for members in front.

Statistical assertions have an error rate of 1e-6 each, and the seeds are fixed.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor, distributions

from credo.core.integrals import integral_by_pieces
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
    NumericLikelihood,
    Poisson,
    SharedGaussian,
    Standardized,
)

ERROR_RATE = 1e-6
BATCH = 5
FRONTS = [(), (3,), (2, 3)]


class Scipy:
    """scipy's distribution, with the face of torch's."""

    def __init__(self, law: Any, *shape: Tensor) -> None:
        self.law = law(*(t.numpy() for t in torch.broadcast_tensors(*shape)))
        self.discrete = law is stats.nbinom

    def log_prob(self, y: Tensor) -> Tensor:
        density = self.law.logpmf if self.discrete else self.law.logpdf
        return torch.as_tensor(density(y.numpy()))

    def cdf(self, y: Tensor) -> Tensor:
        return torch.as_tensor(self.law.cdf(y.numpy()))

    def entropy(self) -> Tensor:
        return torch.as_tensor(self.law.entropy())

    def sample(self) -> Tensor:
        return torch.as_tensor(self.law.rvs(random_state=0), dtype=torch.float64)

    @property
    def mean(self) -> Tensor:
        return torch.as_tensor(self.law.mean())

    @property
    def variance(self) -> Tensor:
        return torch.as_tensor(self.law.var())


@dataclass(frozen=True)
class Case:
    """A likelihood, how many outputs it has, and torch's distribution of the same target."""

    likelihood: Likelihood
    outputs: int
    targets: int

    def inputs(self, front: tuple[int, ...]) -> tuple[Tensor, dict[str, Tensor]]:
        outputs = Stream(0, ("outputs",)).normal(*front, BATCH, self.outputs, dtype=torch.float64)
        own = self.likelihood.parameters(self.outputs)
        rng = Stream(0, ("own",)).child(len(front))
        params = {n: 0.5 * rng.child(n).normal(*front, *p.shape, dtype=torch.float64) for n, p in own.items()}
        return outputs, params

    def reference(self, outputs: Tensor, params: dict[str, Tensor]) -> Any:
        match self.likelihood:
            case Gaussian(scale=scale):
                return distributions.Normal(outputs, scale)
            case LearnedGaussian() | SharedGaussian():
                return distributions.Normal(outputs, params["log_scale"].exp().unsqueeze(-2))
            case HeteroscedasticGaussian(floor=floor):
                half = self.outputs // 2
                return distributions.Normal(outputs[..., :half], F.softplus(outputs[..., half:]) + floor)
            case Standardized(base=base, loc=loc, scale=scale):
                z = Case(base, self.outputs, self.targets).reference(outputs, params)
                m, s = torch.tensor(loc).double(), torch.tensor(scale).double()
                return distributions.Normal(m + s * z.mean, s * z.stddev)
            case HeteroscedasticStudentT(floor=floor, least_df=least):
                half = self.outputs // 2
                df = least + params["log_excess"].exp().unsqueeze(-2)
                return Scipy(stats.t, df, outputs[..., :half], F.softplus(outputs[..., half:]) + floor)
            case LogNormal(floor=floor, loc=loc, scale=scale):
                half = self.outputs // 2
                m, s = loc + scale * outputs[..., :half], scale * (F.softplus(outputs[..., half:]) + floor)
                return Scipy(stats.lognorm, s, torch.zeros_like(m), m.exp())
            case NegativeBinomial(floor=floor, offset=offset):
                half = self.outputs // 2
                mean, shape = (offset + outputs[..., :half]).exp(), 1.0 / (F.softplus(outputs[..., half:]) + floor)
                return Scipy(stats.nbinom, shape, shape / (shape + mean))
            case Poisson():
                return distributions.Poisson(outputs.exp())
            case Bernoulli():
                return distributions.Bernoulli(logits=outputs)
            case Categorical():
                return distributions.Categorical(logits=outputs)
            case _:
                raise AssertionError

    def targets_for(self, front: tuple[int, ...]) -> Tensor:
        """Targets (B, D) or (B,) that all members share."""
        return self.reference(*self.inputs(())).sample() if not front else self.targets_for(())


CASES = {
    "Gaussian": Case(Gaussian(scale=0.3), 1, 1),
    "Gaussian, two targets": Case(Gaussian(scale=2.5), 2, 2),
    "LearnedGaussian": Case(LearnedGaussian(), 1, 1),
    "LearnedGaussian, two targets": Case(LearnedGaussian(initial_scale=0.5), 2, 2),
    "SharedGaussian, two targets": Case(SharedGaussian(initial_scale=0.5), 2, 2),
    "HeteroscedasticGaussian": Case(HeteroscedasticGaussian(), 2, 1),
    "HeteroscedasticGaussian, two targets": Case(HeteroscedasticGaussian(floor=0.1), 4, 2),
    "Standardized": Case(Standardized(Gaussian(scale=0.3), (5.0,), (4.0,)), 1, 1),
    "Standardized, two targets": Case(Standardized(LearnedGaussian(0.5), (-30.0, 0.25), (0.125, 8.0)), 2, 2),
    "Standardized, noise of x": Case(Standardized(HeteroscedasticGaussian(), (1.0, 2.0), (3.0, 0.5)), 4, 2),
    "Categorical, two classes": Case(Categorical(), 2, 1),
    "Categorical, three classes": Case(Categorical(), 3, 1),
    "Bernoulli": Case(Bernoulli(), 1, 1),
    "Bernoulli, two targets": Case(Bernoulli(), 2, 2),
    "HeteroscedasticStudentT": Case(HeteroscedasticStudentT(initial_df=12.0, least_df=9.0), 2, 1),
    "HeteroscedasticStudentT, two targets": Case(
        HeteroscedasticStudentT(floor=0.1, initial_df=15.0, least_df=9.0), 4, 2
    ),
    "LogNormal": Case(LogNormal(floor=0.1, loc=0.5, scale=0.3), 2, 1),
    "LogNormal, two targets": Case(LogNormal(scale=0.25), 4, 2),
    "NegativeBinomial": Case(NegativeBinomial(offset=0.3), 2, 1),
    "NegativeBinomial, two targets": Case(NegativeBinomial(floor=0.1), 4, 2),
    "Poisson": Case(Poisson(), 1, 1),
    "Poisson, two targets": Case(Poisson(), 2, 2),
}
NUMERIC = {name: case for name, case in CASES.items() if isinstance(case.likelihood, NumericLikelihood)}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
every_numeric_case = pytest.mark.parametrize("case", NUMERIC.values(), ids=NUMERIC.keys())
every_front = pytest.mark.parametrize("front", FRONTS, ids=["one function", "members", "chains and draws"])


def exact(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@every_case
@every_front
def test_log_prob(case, front):
    outputs, params = case.inputs(front)
    torch.manual_seed(0)
    y = case.targets_for(front)
    each = case.reference(outputs, params).log_prob(y)
    expected = each if isinstance(case.likelihood, Categorical) else each.sum(-1)
    found = case.likelihood.log_prob(outputs, case.likelihood.check_targets(y, case.outputs), params)
    assert found.shape == (*front, BATCH)
    exact(found, expected)


@every_case
@every_front
def test_mean_and_variance(case, front):
    outputs, params = case.inputs(front)
    reference = case.reference(outputs, params)
    mean, variance = case.likelihood.mean(outputs, params), case.likelihood.variance(outputs, params)
    if isinstance(case.likelihood, Categorical):
        exact(mean, reference.probs)
        exact(variance, reference.probs * (1 - reference.probs))
    else:
        assert mean.shape == variance.shape == (*front, BATCH, case.targets)
        exact(mean, reference.mean)
        exact(variance, reference.variance)


@every_case
@every_front
def test_entropy(case, front):
    outputs, params = case.inputs(front)
    found = case.likelihood.entropy(outputs, params)
    if isinstance(case.likelihood, Poisson):
        exact(found, torch.from_numpy(stats.poisson(outputs.exp().numpy()).entropy()))
    else:
        exact(found, case.reference(outputs, params).entropy())


@every_numeric_case
@every_front
def test_cdf(case, front):
    outputs, params = case.inputs(front)
    y = torch.linspace(-2.0, 6.0, BATCH * case.targets, dtype=torch.float64).reshape(BATCH, case.targets)
    found = case.likelihood.cdf(outputs, y, params)
    if isinstance(case.likelihood, Poisson):
        exact(found, torch.from_numpy(stats.poisson(outputs.exp().numpy()).cdf(y.numpy())))
    else:
        exact(found, case.reference(outputs, params).cdf(y))


@every_numeric_case
def test_density_sums_to_log_prob_and_integrates_to_one(case):
    outputs, params = case.inputs(())
    y = case.reference(outputs, params).mean.round()
    exact(case.likelihood.log_prob_each(outputs, y, params).sum(-1), case.likelihood.log_prob(outputs, y, params))
    lower, upper = case.likelihood.spread(outputs, params)
    if case.likelihood.discrete:
        grid = torch.arange(0.0, float(upper.max()) + 1, dtype=torch.float64).view(-1, 1, 1)
        step = torch.ones_like(upper)
    elif (knots := case.likelihood.knots(outputs, params)) is not None:
        total = integral_by_pieces(lambda z: case.likelihood.log_prob_each(outputs, z, params).exp(), knots)
        exact(total, torch.ones_like(total))
        return
    else:
        step = (upper - lower) / 400
        grid = lower + step * torch.arange(401.0, dtype=torch.float64).view(-1, 1, 1)
    total = (case.likelihood.log_prob_each(outputs, grid, params).exp() * step).sum(0)
    exact(total, torch.ones_like(total))


@every_numeric_case
def test_spread_leaves_a_negligible_part_outside(case):
    outputs, params = case.inputs((4,))
    lower, upper = case.likelihood.spread(outputs, params)
    below = case.likelihood.cdf(outputs, lower - 1.0, params) if case.likelihood.discrete else None
    below = case.likelihood.cdf(outputs, lower, params) if below is None else below
    assert float(below.max()) < 1e-12
    assert float((1.0 - case.likelihood.cdf(outputs, upper, params)).max()) < 2e-12


@every_case
def test_samples_have_the_moments_of_the_density(case):
    """z-scores of the sample mean and of the sample variance, over all entries, with Bonferroni's correction."""
    count = 20_000
    outputs, params = case.inputs(())
    repeated = outputs.expand(count, *outputs.shape)
    own = {name: p.expand(count, *p.shape) for name, p in params.items()}
    drawn = case.likelihood.sample(repeated, own, Stream(1).generator())
    if isinstance(case.likelihood, Categorical):
        assert drawn.shape == (count, BATCH)
        drawn = F.one_hot(drawn, case.outputs).double()
    assert moments_agree(drawn, case.likelihood.mean(outputs, params), case.likelihood.variance(outputs, params))
    assert not moments_agree(drawn, case.likelihood.mean(outputs, params) + 0.1, drawn.var(0))
    assert not moments_agree(drawn, drawn.mean(0), 1.25 * case.likelihood.variance(outputs, params))


def moments_agree(drawn: Tensor, mean: Tensor, variance: Tensor) -> bool:
    count, entries = len(drawn), mean.numel()
    limit = stats.norm.isf(ERROR_RATE / (4 * entries))
    centered = drawn - drawn.mean(0)
    by_mean = (drawn.mean(0) - mean) / (variance / count).sqrt()
    error = ((centered**4).mean(0) - (centered**2).mean(0) ** 2).div(count).sqrt()
    by_variance = ((centered**2).mean(0) - variance) / error.clamp_min(1e-12)
    return bool((by_mean.abs() < limit).all() and (by_variance.abs() < limit).all())


@every_case
def test_samples_follow_the_law(case):
    """The whole law, by Kolmogorov and Smirnov where it is continuous and by chi squared where it is not."""
    outputs, params = case.inputs(())
    count = 4000
    repeated = outputs[:1].expand(count, *outputs[:1].shape)
    own = {name: p.expand(count, *p.shape) for name, p in params.items()}
    drawn = case.likelihood.sample(repeated, own, Stream(2).generator())[:, 0].reshape(count, -1)[:, 0].numpy()
    reference = case.reference(outputs[:1], params)
    assert p_value(case, reference, drawn) > ERROR_RATE
    wrong = (
        drawn * 1.2
        if not isinstance(case.likelihood, Categorical | Bernoulli | Poisson | NegativeBinomial)
        else 0 * drawn
    )
    assert p_value(case, reference, wrong) < ERROR_RATE


def p_value(case: Case, reference: Any, drawn: np.ndarray) -> float:
    if isinstance(reference, Scipy) and not reference.discrete:
        first = [np.ravel(values)[0] for values in reference.law.args]
        return float(stats.kstest(drawn, reference.law.dist(*first).cdf).pvalue)
    if isinstance(reference, distributions.Normal):
        law = stats.norm(
            float(reference.mean.flatten()[0]), float(reference.scale.expand_as(reference.mean).flatten()[0])
        )
        return float(stats.kstest(drawn, law.cdf).pvalue)
    top = (
        case.outputs - 1
        if isinstance(case.likelihood, Categorical)
        else 1
        if isinstance(case.likelihood, Bernoulli)
        else 6
    )
    counts = np.bincount(np.minimum(drawn, top).astype(int), minlength=top + 1)
    values = torch.arange(top + 1.0, dtype=torch.float64)
    log_p = torch.stack([reference.log_prob(v).reshape(-1)[0] for v in values])
    probs = log_p.exp().numpy()
    probs[-1] = 1 - probs[:-1].sum()
    return float(stats.chisquare(counts, probs * len(drawn)).pvalue)


@every_case
def test_the_generator_decides(case):
    outputs, params = case.inputs((50,))
    one, same, other = (case.likelihood.sample(outputs, params, Stream(s).generator()) for s in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@every_case
def test_gradient_of_log_prob(case):
    outputs, params = case.inputs((2,))
    torch.manual_seed(0)
    y = case.likelihood.check_targets(case.targets_for((2,)), case.outputs)
    names = list(params)

    def function(values: Tensor, *own: Tensor) -> Tensor:
        return case.likelihood.log_prob(values, y, dict(zip(names, own, strict=True)))

    values = [outputs.requires_grad_(), *(p.requires_grad_() for p in params.values())]
    assert torch.autograd.gradcheck(function, values)


def test_learned_scale_has_a_proper_prior():
    """log_scale ~ N(log initial_scale, 3^2), for every target of every member."""
    likelihood = LearnedGaussian(initial_scale=0.2)
    log_scale = Stream(0).normal(4, 2, dtype=torch.float64)
    expected = stats.norm(math.log(0.2), 3.0).logpdf(log_scale.numpy()).sum(-1)
    exact(likelihood.log_prior({"log_scale": log_scale}), torch.from_numpy(expected))
    assert likelihood.parameters(2)["log_scale"].tolist() == pytest.approx([math.log(0.2)] * 2, abs=1e-6)
    assert Gaussian().log_prior({}) == 0.0


def test_twins_are_rejected():
    """A variance in the place of a standard deviation, and a density without its log scale."""
    outputs, y = torch.zeros(1, 1, dtype=torch.float64), torch.full((1, 1), 0.7, dtype=torch.float64)
    right = Gaussian(scale=0.3).log_prob(outputs, y, {})
    assert not torch.allclose(right, distributions.Normal(0.0, math.sqrt(0.3)).log_prob(y).sum(-1), atol=0.1)
    assert not torch.allclose(right, -0.5 * (y / 0.3).square().sum(-1), atol=0.1)


def test_the_scale_of_each_member_meets_its_own_outputs():
    """(M, D) against (M, B, D): with as many members as examples a wrong broadcast would go unseen in shapes."""
    outputs = torch.zeros(3, 3, 1, dtype=torch.float64)
    y = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    log_scale = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    found = LearnedGaussian().log_prob(outputs, y, {"log_scale": log_scale})
    for member in range(3):
        exact(found[member], torch.from_numpy(stats.norm(0.0, math.exp(member)).logpdf(y[:, 0].numpy())))
    assert not torch.allclose(found, found.T)
