"""KL and log q against torch.distributions, quadrature and each other; and the parts that go wrong elsewhere."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Independent, MixtureSameFamily, Normal, kl_divergence

import credo
from credo import likelihoods, priors
from credo.core.trees import ParameterInfo, Params, Variables
from credo.methods.vi.bayes_by_backprop import BayesByBackprop
from credo.methods.vi.mean_field import VariationalState
from credo.posteriors import DiagonalGaussian
from credo.priors.base import entropy

LAYOUT = {
    "a.weight": ParameterInfo((3, 4), 4),
    "a.bias": ParameterInfo((3,), 1),
    "b.weight": ParameterInfo((2, 3), 3),
    "gain": ParameterInfo((), 1),
}
MEMBERS = 2


def factors(seed: int = 0) -> tuple[Params, Params]:
    shapes = {name: torch.empty(MEMBERS, *info.shape, dtype=torch.float64) for name, info in LAYOUT.items()}
    mean, raw = credo.Stream(seed).normal_like(shapes), credo.Stream(seed + 1).normal_like(shapes)
    return mean, {name: (0.7 * t).exp() for name, t in raw.items()}


def exact_kl(mean: Params, scale: Params, prior_scale: float, fan_in: bool) -> Tensor:
    total = torch.zeros(MEMBERS, dtype=torch.float64)
    for name, info in LAYOUT.items():
        wide = prior_scale / math.sqrt(info.fan_in) if fan_in else prior_scale
        each = kl_divergence(Normal(mean[name], scale[name]), Normal(0.0, torch.tensor(wide).double()))
        total += each.reshape(MEMBERS, -1).sum(1)
    return total


@pytest.mark.parametrize("fan_in", [False, True])
def test_the_kl_from_a_normal_prior_is_that_of_torch_distributions(fan_in: bool) -> None:
    mean, scale = factors()
    torch.testing.assert_close(priors.Normal(0.7, fan_in).kl(mean, scale, LAYOUT), exact_kl(mean, scale, 0.7, fan_in))


@pytest.mark.parametrize(
    "broken",
    [
        lambda kl: kl / len(LAYOUT),  # divided by the number of layers
        lambda kl: kl + 0.5 * sum(math.prod(i.shape) for i in LAYOUT.values()),  # a stray half for every weight
        lambda kl: kl / sum(math.prod(i.shape) for i in LAYOUT.values()),  # a mean in the place of a sum
    ],
)
def test_wrong_kls_are_rejected(broken) -> None:
    mean, scale = factors()
    with pytest.raises(AssertionError):
        torch.testing.assert_close(
            broken(priors.Normal(0.7).kl(mean, scale, LAYOUT)), exact_kl(mean, scale, 0.7, False)
        )


def test_points_enter_the_kl_by_their_log_density() -> None:
    mean, scale = factors()
    some = {name: s for name, s in scale.items() if "weight" in name}
    for prior in (priors.Normal(0.7, fan_in=True), priors.Laplace(0.7, fan_in=True)):
        points = {name: w for name, w in mean.items() if name not in some}
        uncertain = prior.kl({name: mean[name] for name in some}, some, LAYOUT)
        torch.testing.assert_close(prior.kl(mean, some, LAYOUT), uncertain - prior.log_prob(points, LAYOUT))


@pytest.mark.parametrize("fan_in", [False, True])
def test_the_kl_from_a_laplace_prior_is_that_of_quadrature(fan_in: bool) -> None:
    mean, scale = factors()
    prior = priors.Laplace(0.8, fan_in)
    z = torch.linspace(-12, 12, 200_001, dtype=torch.float64)  # the kink at 0 limits the trapezium rule to step^2
    total = torch.zeros(MEMBERS, dtype=torch.float64)
    for name, info in LAYOUT.items():
        for member in range(MEMBERS):
            for m, s in zip(mean[name][member].flatten(), scale[name][member].flatten(), strict=True):
                w = (m + s * z).unsqueeze(1)
                log_p = prior.log_prob({name: w.view(-1, 1)}, {name: ParameterInfo((1,), info.fan_in)})
                log_q = Normal(m, s).log_prob(w.squeeze(1))
                total[member] += torch.trapezoid(log_q.exp() * (log_q - log_p), w.squeeze(1))
    torch.testing.assert_close(prior.kl(mean, scale, LAYOUT), total, rtol=1e-6, atol=1e-5)  # the kink, as above


def test_a_scale_mixture_and_student_t_have_no_closed_form_and_say_so() -> None:
    mean, scale = factors()
    for prior in (priors.ScaleMixture(), priors.StudentT()):
        assert prior.kl(mean, scale, LAYOUT) is None
        assert prior.expected_log_prob(mean, scale, LAYOUT) is None


def test_every_log_density_is_the_sum_of_its_factors() -> None:
    mean, _ = factors()
    for prior in (priors.Normal(0.7, True), priors.Laplace(fan_in=True), priors.StudentT(), priors.ScaleMixture()):
        each = prior.log_prob_each(mean, LAYOUT)
        total = sum(t.reshape(MEMBERS, -1).sum(1) for t in each.values())
        torch.testing.assert_close(total, prior.log_prob(mean, LAYOUT))


def test_the_entropy_is_that_of_torch_distributions_also_for_odd_sizes() -> None:
    _, scale = factors()
    exact = sum(Normal(0.0, s).entropy().reshape(MEMBERS, -1).sum(1) for s in scale.values())
    torch.testing.assert_close(entropy(scale), exact)


def model_of(prior: priors.Prior, likelihood: likelihoods.Likelihood | None = None) -> credo.Model:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    return credo.Model(net, likelihood or likelihoods.Gaussian(), prior)


def state_of(model: credo.Model, members: int, seed: int = 0) -> tuple[Variables, Params]:
    given = model.complete(model.network.given(), 1).params
    like = {name: w.double().expand(members, *w.shape[1:]) for name, w in given.items()}
    mean, raw = credo.Stream(seed).normal_like(like), credo.Stream(seed + 1).normal_like(like)
    return Variables(mean), {name: r - 1.0 for name, r in raw.items()}


@pytest.mark.parametrize("likelihood", [likelihoods.Gaussian(), likelihoods.LearnedGaussian()])
@pytest.mark.parametrize(
    "prior", [priors.Normal(0.7, True), priors.Laplace(0.7), priors.ScaleMixture(), priors.StudentT()]
)
def test_the_kl_of_an_epoch_has_the_kl_as_its_expectation(prior: priors.Prior, likelihood) -> None:
    """20,000 members are as many independent estimates; 5 standard errors: a right one fails with probability 6e-7."""
    model = model_of(prior, likelihood)
    mean, rho = state_of(model, 1)
    scale = {name: torch.nn.functional.softplus(r) for name, r in rho.items()}
    posterior = DiagonalGaussian(model, mean, scale)
    draws = 20_000
    many = {name: r.expand(draws, *r.shape[1:]) for name, r in rho.items()}
    state = VariationalState(mean.repeat(draws), many)
    kl = 10 * BayesByBackprop().summary(credo.Target(model, 10), state, credo.Stream(3))["kl"]
    drawn = posterior.draw(draws, seed=5).variables.params
    difference = posterior.log_prob(drawn) - credo.Target(model, 10).log_prior(drawn)
    error = (kl.var() / draws + difference.var() / draws).sqrt()
    assert abs(kl.mean() - difference.mean()) < 5 * error
    assert abs(kl.mean() + 0.5 * len(scale) - difference.mean()) > 5 * error  # the twin with +0.5 in log q
    assert abs(posterior.kl(draws, seed=7).item() - difference.mean()) < 5 * error * math.sqrt(2.0)


def test_log_q_is_that_of_torch_distributions_for_one_member_and_for_a_mixture() -> None:
    model = model_of(priors.Normal())
    for members in (1, 3):
        mean, rho = state_of(model, members)
        scale = {name: torch.nn.functional.softplus(r) for name, r in rho.items()}
        posterior = DiagonalGaussian(model, mean, scale)
        drawn = posterior.draw(8).variables.params
        flat = [
            torch.cat([tree[n].reshape(len(tree[n]), -1) for n in mean.params], 1)
            for tree in (mean.params, scale, drawn)
        ]
        components = Independent(Normal(flat[0], flat[1]), 1)
        mixture = MixtureSameFamily(torch.distributions.Categorical(torch.ones(members).double()), components)
        torch.testing.assert_close(posterior.log_prob(drawn), mixture.log_prob(flat[2]))
        with pytest.raises(AssertionError):
            torch.testing.assert_close(posterior.log_prob(drawn) + 0.5 * flat[2].shape[1], mixture.log_prob(flat[2]))


def test_a_scale_mixture_is_finite_for_large_weights_in_single_precision() -> None:
    prior = priors.ScaleMixture(weight=0.25, scale_1=1.0, scale_2=math.exp(-8.0))
    w = torch.tensor([[0.0, 1e-3, 1.0, -50.0, 1e3, -1e3]], requires_grad=True)
    layout = {"w": ParameterInfo((6,), 1)}
    value = prior.log_prob({"w": w}, layout)
    (gradient,) = torch.autograd.grad(value.sum(), w)
    assert bool(torch.isfinite(value).all())
    assert bool(torch.isfinite(gradient).all())
    wide = priors.Normal(1.0).log_prob_each({"w": w}, layout)["w"] + math.log(0.25)
    torch.testing.assert_close(prior.log_prob_each({"w": w}, layout)["w"][0, 3:], wide[0, 3:])  # the wide part alone
    by_mean_of_logs = 0.25 * priors.Normal(1.0).log_density(w) + 0.75 * priors.Normal(math.exp(-8.0)).log_density(w)
    assert float(by_mean_of_logs[0, -1].detach()) < -1e11  # the twin that averages logarithms


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own, in its forward mode
def test_a_scale_mixture_has_every_derivative_of_its_density() -> None:
    """Its density is a function of its own making: first and second order, by members, forwards and backwards."""
    prior = priors.ScaleMixture(0.3, 1.0, 0.05)
    w = (0.3 * credo.Stream(0).normal(7, dtype=torch.float64)).requires_grad_()

    def by_torch(t: Tensor) -> Tensor:
        scales = torch.tensor([1.0, 0.05], dtype=torch.float64)
        parts = MixtureSameFamily(
            torch.distributions.Categorical(torch.tensor([0.3, 0.7]).double()), Normal(0.0, scales)
        )
        return parts.log_prob(t).sum()

    def ours(t: Tensor) -> Tensor:
        return prior.log_density(t).sum()

    assert torch.autograd.gradcheck(ours, w)
    assert torch.autograd.gradgradcheck(ours, w)
    point, rows = w.detach(), torch.stack([w.detach(), 2.0 * w.detach()])
    torch.testing.assert_close(ours(point), by_torch(point))
    torch.testing.assert_close(torch.func.hessian(ours)(point), torch.func.hessian(by_torch)(point))
    torch.testing.assert_close(
        torch.func.vmap(torch.func.grad(ours))(rows), torch.func.vmap(torch.func.grad(by_torch))(rows)
    )
    forward, exact = (torch.func.jvp(f, (point,), (point,))[1] for f in (ours, by_torch))
    torch.testing.assert_close(forward, exact)
