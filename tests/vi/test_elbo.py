"""The evidence lower bound and its gradient against the formula, written with torch.distributions in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

import credo
from credo import likelihoods, priors
from credo.core.trees import Params, Variables
from credo.methods.ascent import per_example_gradient
from credo.methods.base import Tick
from credo.methods.vi import BayesByBackprop, elbo
from credo.methods.vi.flipout import random_signs
from credo.methods.vi.mean_field import MeanFieldNormal
from credo.methods.vi.objective import expected_log_prior

N, T, KL_WEIGHT = 20, 0.7, 0.3
NET = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
X = credo.Stream(4).normal(5, 2, dtype=torch.float64)
BATCH = credo.Batch(X, X[:, :1].sin())


class Cautious(priors.Normal):
    """A user's own density, of which the closed forms of its parent know nothing."""

    def log_prob(self, params: Params, layout: credo.core.trees.Layout) -> Tensor:
        return sum(-w.unsqueeze(-1).flatten(1).pow(4).sum(1) for w in params.values())


def scene(prior: priors.Prior, members: int, bayesian: tuple[str, ...]) -> tuple[credo.Target, MeanFieldNormal]:
    """A q somewhere, for the parameters of a network and of its likelihood."""
    target = credo.Target(credo.Model(NET, likelihoods.LearnedGaussian(), prior), N, temperature=T)
    like = target.model.complete(target.model.network.given(), 1).repeat(members).params
    raw = credo.Stream(1).normal_like(like)
    mean = {name: t.requires_grad_() for name, t in credo.Stream(0).normal_like(like).items()}
    return target, MeanFieldNormal(mean, {name: (raw[name] - 1.0).requires_grad_() for name in bayesian})


def by_hand(target: credo.Target, q: MeanFieldNormal, samples: int, prior_of_points: bool, rng: credo.Stream) -> Tensor:
    """In weight space, KL_WEIGHT (E[log p] / T + H(q)) by the same draws where the prior has no closed form."""
    scale = {name: F.softplus(r) for name, r in q.rho.items()}
    prior, layout = target.model.prior, target.layout
    total, entropy = 0.0, sum(Normal(0.0, s).entropy().flatten(1).sum(1) for s in scale.values())
    for s in range(samples):
        noise = q.noise(q.rho, rng.child(s, "weights"))
        w = {name: mean + scale[name] * noise[name] if name in scale else mean for name, mean in q.mean.items()}
        counted = {name: w[name] for name in layout if prior_of_points or name in scale}
        log_prior = target.model.likelihood.log_prior({"log_scale": w["likelihood.log_scale"]})
        if type(prior) is priors.Normal:
            for name in counted:
                if name in scale:
                    p, mine = Normal(0.0, torch.tensor(prior.scale).double()), Normal(q.mean[name], scale[name])
                    each = -kl_divergence(mine, p) - mine.entropy()
                else:
                    each = Normal(0.0, prior.scale).log_prob(w[name])
                log_prior = log_prior + each.flatten(1).sum(1)
        else:
            log_prior = log_prior + prior.log_prob(counted, layout)
        log_likelihood = target.log_likelihood(Variables(w), BATCH).sum(1) * N / len(X)
        total = total + log_likelihood / T + KL_WEIGHT * (log_prior / T + entropy)
    return total / samples


PRIORS = (priors.Normal(0.8), priors.ScaleMixture(0.5, 1.0, 0.1, fan_in=True), priors.StudentT(3.0, 0.5), Cautious())


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("prior_of_points", [True, False])
@pytest.mark.parametrize("members", [1, 2])
def test_the_bound_and_its_gradient_are_those_of_the_formula(
    prior: priors.Prior, prior_of_points: bool, members: int
) -> None:
    """The middle parameters and one of the likelihood have a distribution; two draws."""
    target, q = scene(prior, members, ("0.bias", "2.weight", "likelihood.log_scale"))
    options = {"samples": 2, "prior_of_points": prior_of_points}
    estimator, rng = credo.methods.vi.Reparameterization(), credo.Stream(2)
    ours, _ = elbo(target, q, estimator, BATCH, rng, kl_weight=KL_WEIGHT, **options)
    theirs = by_hand(target, q, 2, prior_of_points, rng)
    torch.testing.assert_close(ours, theirs)
    leaves = [*q.mean.values(), *q.rho.values()]
    found, expected = (torch.autograd.grad(bound.sum(), leaves, materialize_grads=True) for bound in (ours, theirs))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)
    twin, _ = elbo(target, q, estimator, BATCH, rng, kl_weight=KL_WEIGHT / 2, **options)
    assert not torch.allclose(twin, theirs, rtol=1e-3)  # a KL that is divided once too often


@pytest.mark.parametrize("estimator", ["local", "flipout"])
@pytest.mark.parametrize("prior", PRIORS[1:], ids=lambda p: type(p).__name__)
def test_the_prior_of_a_layer_s_weights_is_averaged_over_draws_of_q(estimator: str, prior: priors.Prior) -> None:
    """20,000 members are as many estimates of E_q[log p(w)]; 5 standard errors: false alarms with probability 6e-7."""
    target, one = scene(prior, 1, tuple(dict(NET.named_parameters())))
    members = 20_000
    q = MeanFieldNormal(
        *({n: t.detach().expand(members, *t.shape[1:]) for n, t in g.items()} for g in (one.mean, one.rho))
    )
    method = BayesByBackprop(estimator=estimator)
    with torch.no_grad():
        _, drawn = method.estimator.log_likelihood(target, q, BATCH, credo.Stream(3))
        found = expected_log_prior(target, q, list(target.layout), [drawn], credo.Stream(4))
        w = {name: q.mean[name] + q.scale[name] * e for name, e in q.noise(q.rho, credo.Stream(5)).items()}
        exact = prior.log_prob({name: w[name] for name in target.layout}, target.layout)
        exact = exact + target.model.likelihood.log_prior({"log_scale": q.mean["likelihood.log_scale"]})
        at_mean = target.log_prior(q.mean)
    error = ((found.var() + exact.var()) / members).sqrt()
    assert abs(found.mean() - exact.mean()) < 5 * error
    assert abs(at_mean.mean() - exact.mean()) > 5 * error  # the twin that forgets the noise


def test_random_signs_are_fair_and_of_no_pattern() -> None:
    """200,000 signs: their sum, and that of products of neighbors up to eight apart, within 5 standard errors."""
    first, second = random_signs([(200_000,), (7, 3)], torch.zeros(1, dtype=torch.float64), credo.Stream(3))
    assert second.shape == (7, 3)
    assert set(first.tolist()) == {-1.0, 1.0}
    for shift in range(9):
        product = first[shift:] * first[: len(first) - shift] if shift else first
        assert abs(float(product.sum())) < 5 * len(product) ** 0.5


def test_examples_of_nothing_but_zeros_leave_local_gradients_finite() -> None:
    net = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 1, bias=False))
    model, x = credo.Model(net, likelihoods.Gaussian()), torch.zeros(6, 3)
    x[0] = 1.0
    method = BayesByBackprop(estimator="local")
    target = credo.Target(model, 6)
    q = method.init(target, model.network.given(), credo.Stream(0)).leaves()
    bound, *_ = method.objective(target, q, credo.Batch(x, torch.zeros(6, 1)), Tick(0, 100, credo.Stream(1)), {})
    found = per_example_gradient(-bound, [*q.mean.values(), *q.rho.values()], target)
    assert all(bool(g.isfinite().all()) for g in found)


def test_points_are_part_of_the_kl_only_if_they_feel_their_prior() -> None:
    model = credo.Model(nn.Linear(3, 1).double(), likelihoods.Gaussian(), priors.Normal(0.5))
    target, found = credo.Target(model, 10), []
    for feel in (True, False):
        method = BayesByBackprop(bayesian="weight", prior_of_points=feel)
        state = method.init(target, model.network.given(), credo.Stream(0))
        found.append(method.summary(target, state, credo.Stream(1))["kl"])
    bias = {"bias": state.mean.params["bias"]}
    torch.testing.assert_close(found[0] - found[1], -model.prior.log_prob(bias, model.network.layout) / 10)
