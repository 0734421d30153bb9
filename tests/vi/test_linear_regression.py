"""Variational inference where everything is known: linear regression with known noise.

The bound of a factorized normal q has the closed form
    log p(y | mean) - sum_i scale_i^2 (X^T X)_ii / (2 noise^2) - KL(q || prior),
its maximum lies at the exact mean with variances 1 / precision_ii, and its distance from the evidence is known.

Gradients are compared by 20,000 independent estimates within 5 standard errors: about 100 comparisons, so that correct
code fails with a probability near 1e-4 over the choice of seeds; the seeds are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import exact, likelihoods, priors
from credo.core.optimizers import Schedule
from credo.core.trees import Variables
from credo.diagnostics import gradient_draws, trust
from credo.methods.ascent import per_example_gradient
from credo.methods.base import Tick
from credo.methods.vi import BayesByBackprop, BlackBoxVI, GeometricWeights, WarmUp
from credo.methods.vi import score as score_module
from credo.methods.vi.mean_field import MeanField, VariationalState
from credo.posteriors import DiagonalGaussian

NOISE, PRIOR, REPEATS, ERRORS = 0.5, 1.3, 20_000, 5.0
X = credo.Stream(1).normal(12, 3, dtype=torch.float64) @ torch.tensor(
    [[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64
)
Y = (
    X @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64)
    + 0.3
    + NOISE * credo.Stream(2).normal(12, 1, dtype=torch.float64)
)
MODEL = credo.Model(nn.Linear(3, 1).double(), likelihoods.Gaussian(NOISE), priors.Normal(PRIOR))
BATCH = credo.Batch(X, Y)
TARGET = credo.Target(MODEL, size=12)
LINE = exact.LinearRegression(
    exact.with_intercept(X), Y.squeeze(1), NOISE, exact.GaussianWeights.isotropic(4, scale=PRIOR)
)


def state_at(mean: Tensor, scale: Tensor) -> VariationalState:
    """One member, from weights and intercept in one vector, (4,)."""
    params = {"weight": mean[None, None, :3].clone(), "bias": mean[None, 3:].clone()}
    rho = scale.expm1().log()
    return VariationalState(Variables(params), {"weight": rho[None, None, :3], "bias": rho[None, 3:]})


ELSEWHERE = state_at(
    torch.tensor([0.3, -1.0, 0.7, 0.1], dtype=torch.float64), torch.tensor([0.2, 0.4, 0.1, 0.3], dtype=torch.float64)
)


def exact_gradient(state: VariationalState, temperature: float = 1.0) -> Tensor:
    """Of the negative bound per example, by mean and then by rho, (8,)."""
    mean = torch.cat([w.flatten() for w in state.mean.params.values()]).requires_grad_()
    rho = torch.cat([r.flatten() for r in state.rho.values()]).requires_grad_()
    scale = torch.nn.functional.softplus(rho)
    expected = LINE.log_likelihood(mean) - (scale.square() * LINE.design.square().sum(0)).sum() / (2 * NOISE**2)
    log_prior = -(mean.square() + scale.square()).sum() / (2 * PRIOR**2)
    bound = (expected + log_prior) / temperature + scale.log().sum()
    return torch.cat(torch.autograd.grad(-bound / 12, [mean, rho]))


def errors(draws: Tensor, truth: Tensor) -> float:
    """The largest distance of the average of (R, 8) estimates from the truth, in standard errors."""
    return float(((draws.mean(0) - truth).abs() / (draws.var(0) / len(draws)).sqrt().clamp_min(1e-12)).max())


def estimates(method: MeanField, state: VariationalState = ELSEWHERE, target: credo.Target = TARGET) -> Tensor:
    return gradient_draws({"one": method}, target, state, BATCH, REPEATS)["one"]


METHODS: dict[str, MeanField] = {
    "reparameterization": BayesByBackprop(),
    "two samples": BayesByBackprop(samples=2),
    "local": BayesByBackprop(estimator="local"),
    "flipout": BayesByBackprop(estimator="flipout"),
    "score": BlackBoxVI(samples=8, rao_blackwell=False, control_variate=False),
    "score, Rao-Blackwellized": BlackBoxVI(samples=8, control_variate=False),
    "score, with control variate": BlackBoxVI(samples=8, rao_blackwell=False),
    "score, with all": BlackBoxVI(samples=8),
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


@every_method
def test_every_gradient_is_unbiased(method: MeanField) -> None:
    assert errors(estimates(method), exact_gradient(ELSEWHERE)) < ERRORS


@every_method
def test_every_gradient_is_unbiased_at_another_temperature(method: MeanField) -> None:
    found = estimates(method, target=replace(TARGET, temperature=0.4))
    assert errors(found, exact_gradient(ELSEWHERE, temperature=0.4)) < ERRORS


def test_a_monte_carlo_kl_gives_the_gradient_of_the_closed_one() -> None:
    """A scale mixture of two equal normals is a normal, but nothing knows that."""
    model = credo.Model(MODEL.network, MODEL.likelihood, priors.ScaleMixture(0.5, PRIOR, PRIOR))
    for estimator in ("reparameterization", "local", "flipout"):
        found = estimates(BayesByBackprop(estimator=estimator), target=credo.Target(model, 12))
        assert errors(found, exact_gradient(ELSEWHERE)) < ERRORS


@dataclass(frozen=True)
class Part(Schedule):
    """Broken as an annealing: a KL that is divided by something for good."""

    by: float

    def factor(self, fraction: float) -> float:
        return 1.0 / self.by


@pytest.mark.parametrize(
    "broken",
    [
        BayesByBackprop(annealing=Part(2.0)),  # the KL divided by the number of layers' tensors
        BayesByBackprop(annealing=Part(12.0)),  # and by the number of data, which the bound per example has already
        BlackBoxVI(samples=3, initial_scale=1.0, baseline_decay=0.0),
    ],
    ids=["divided by layers", "divided by data", "control variate from its own draw"],
)
def test_wrong_gradients_are_rejected(broken: MeanField, monkeypatch: pytest.MonkeyPatch) -> None:
    def biased(score: Tensor, f: Tensor, control_variate: bool) -> Tensor:
        f = f.reshape(*f.shape, *([1] * (score.ndim - f.ndim)))
        squares = score.square()
        return ((f - (f * squares).sum(0) / squares.sum(0)) * score).mean(0)

    monkeypatch.setattr(score_module, "_averaged", biased)
    assert errors(estimates(broken), exact_gradient(ELSEWHERE)) > ERRORS


def test_the_reparameterized_gradient_has_the_lower_variance() -> None:
    spread = {name: float(estimates(method).var(0).sum()) for name, method in METHODS.items()}
    assert spread["reparameterization"] < spread["score, with all"]  # and that is one draw against eight
    assert spread["score, with all"] < spread["score, Rao-Blackwellized"] < spread["score"]
    assert spread["score, with control variate"] < 0.3 * spread["score"]
    assert spread["two samples"] < 0.6 * spread["reparameterization"]  # one half, and Monte Carlo error


def test_noise_for_every_example_has_the_lower_variance_in_a_wide_batch() -> None:
    spread = {name: float(estimates(METHODS[name]).var(0).sum()) for name in ("reparameterization", "local", "flipout")}
    assert spread["local"] < spread["flipout"] < spread["reparameterization"]


@every_method
def test_the_maximum_has_the_exact_mean_and_the_variances_of_the_precision(method: MeanField) -> None:
    best = state_at(LINE.posterior.mean, LINE.posterior.precision.diagonal().rsqrt())
    assert errors(estimates(method, best), torch.zeros(8, dtype=torch.float64)) < ERRORS
    marginal = state_at(LINE.posterior.mean, LINE.posterior.scale)  # what a Laplace approximation would give
    assert errors(estimates(method, marginal), torch.zeros(8, dtype=torch.float64)) > ERRORS


SLOWLY = {"learning_rate": 0.05, "schedule": credo.Cosine()}


@pytest.mark.parametrize(
    "method",
    [
        BayesByBackprop(estimator="local", samples=4, epochs=800, batch_size=None, **SLOWLY),
        BayesByBackprop(samples=4, epochs=400, batch_size=6, **SLOWLY),
        BlackBoxVI(epochs=800, batch_size=None, initial_scale=0.3, **SLOWLY),
    ],
    ids=["local", "minibatches", "black box"],
)
def test_a_fit_ends_at_the_best_factorized_normal(method: MeanField) -> None:
    posterior = credo.fit(MODEL, (X, Y), method, seed=1)
    mean = torch.cat([w.flatten() for w in posterior.mean.params.values()])
    scale = torch.cat([s.flatten() for s in posterior.scale.values()])
    best = LINE.mean_field
    assert float(((mean - best.mean) / best.scale).abs().max()) < 0.25  # noisy gradients leave the iterates moving
    assert float((scale / best.scale - 1.0).abs().max()) < 0.15  # likewise
    assert float((LINE.posterior.scale / best.scale - 1.0).abs().max()) > 0.3  # the marginal scales would not pass
    row = posterior.history[-1]
    bound = 12 * (row["log_likelihood"] - row["kl"])
    assert abs(bound - (LINE.log_evidence - LINE.mean_field_gap)) < 3.0  # one noisy estimate of one step


def posterior_at(line: exact.LinearRegression, model: credo.Model) -> DiagonalGaussian:
    state = state_at(line.mean_field.mean, line.mean_field.scale)
    scale = {name: torch.nn.functional.softplus(r) for name, r in state.rho.items()}
    return DiagonalGaussian(model, state.mean, scale)


def test_the_bound_lies_below_the_evidence_by_the_known_gap() -> None:
    found = trust(posterior_at(LINE, MODEL), (X, Y), draws=20_000)
    (bound, error), evidence = found.elbo[0], LINE.log_evidence
    assert abs(bound - (evidence - LINE.mean_field_gap)) < ERRORS * error
    assert bound < evidence - ERRORS * error
    assert found.log_evidence[0] > bound
    assert found.k[0] > 0.5  # q is narrower than the posterior along a correlation, so its weights have a heavy tail
    assert abs(bound + 0.5 * 4 - (evidence - LINE.mean_field_gap)) > ERRORS * error  # the twin with +0.5 in log q


def test_the_bound_is_the_evidence_where_the_posterior_factorizes() -> None:
    """Orthogonal columns with mean zero: q is the posterior, and log p(y, w) - log q(w) is the evidence at every w."""
    x = torch.linalg.qr(X - X.mean(0))[0] * 3.0
    line = exact.LinearRegression(
        exact.with_intercept(x), Y.squeeze(1), NOISE, exact.GaussianWeights.isotropic(4, scale=PRIOR)
    )
    found = trust(posterior_at(line, MODEL), (x, Y), draws=100)
    assert found.elbo[0][0] == pytest.approx(line.log_evidence, abs=1e-8)
    assert found.elbo[0][1] < 1e-10
    assert found.k[0] < 0.5
    assert "close to the posterior" in found.verdict


@pytest.mark.parametrize("prior", [priors.Normal(PRIOR), priors.ScaleMixture()])
def test_the_gradients_of_an_epoch_s_minibatches_average_to_that_of_all_data(prior: priors.Prior) -> None:
    """At the same noise in the weights, exactly."""
    target = credo.Target(credo.Model(MODEL.network, MODEL.likelihood, prior), 12)
    method, tick = BayesByBackprop(), Tick(0, 100, credo.Stream(0))

    def gradient(target: credo.Target, batch: credo.Batch) -> Tensor:
        q = ELSEWHERE.leaves()
        bound, *_ = method.objective(target, q, batch, tick, {})
        found = per_example_gradient(-bound, [*q.mean.values(), *q.rho.values()], target)
        return torch.cat([g.flatten() for g in found])

    whole = gradient(target, BATCH)
    parts = [gradient(target, credo.Batch(X[i : i + 4], Y[i : i + 4])) for i in range(0, 12, 4)]
    torch.testing.assert_close(torch.stack(parts).mean(0), whole)
    small = credo.Target(target.model, 4)  # the twin that takes the batch for the data
    wrong = gradient(small, credo.Batch(X[:4], Y[:4]))
    assert not torch.allclose(wrong, parts[0], rtol=0.05)


def test_blundell_s_minibatch_weights_share_the_whole_kl_out() -> None:
    shares = [GeometricWeights().share(i, 10) for i in range(10)]
    assert sum(shares) == pytest.approx(1.0)
    assert shares == pytest.approx([2.0 ** (10 - i) / (2.0**10 - 1) for i in range(1, 11)])
    assert sum(GeometricWeights().share(i, 5000) for i in range(5000)) == pytest.approx(1.0)  # no overflow
    method = BayesByBackprop(epochs=3, batch_weights=GeometricWeights())
    weights = [method._kl_weight(Tick(step, 30, credo.Stream(0))) for step in range(30)]
    assert weights == pytest.approx([10 * share for share in shares] * 3)
    even = BayesByBackprop(epochs=3)
    assert {even._kl_weight(Tick(step, 30, credo.Stream(0))) for step in range(30)} == {1.0}


def test_annealing_rises_in_a_straight_line_and_stays() -> None:
    assert [WarmUp(until=0.5).factor(f) for f in (0.0, 0.25, 0.5, 1.0)] == [0.0, 0.5, 1.0, 1.0]
    for wrong in ({"until": 0.0}, {"until": 2.0}, {"initial": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            WarmUp(**wrong)
