"""The score-function gradient for any q and any log joint: discrete variables, jumps, q that does not factorize."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, priors
from credo.core.trees import Params
from credo.methods.base import Tick
from credo.methods.vi import BlackBoxVI
from credo.methods.vi.score import (
    BernoulliFamily,
    Family,
    LogJoint,
    NormalFamily,
    bound_gradient,
    score_gradient,
    signal,
)

LOGIT = {"logit": torch.tensor([0.3, -1.0, 0.8], dtype=torch.float64)}
REPEATS, ERRORS = 4000, 5.0
"""Averages of 4000 estimates within 5 standard errors: some 30 comparisons, a false alarm with probability 2e-5."""


def jumping(z: Tensor) -> Tensor:
    """A log joint of three bits with no derivative, (S,)."""
    return torch.where(z.sum(-1) >= 2, 1.5, -0.7) + 0.8 * z[..., 0] * z[..., 2]


def exact_bernoulli_gradient() -> Tensor:
    logit = LOGIT["logit"].clone().requires_grad_()
    every = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)), dtype=torch.float64)
    log_q = BernoulliFamily().log_prob({"logit": logit}, every).sum(1)
    bound = (log_q.exp() * (jumping(every) - log_q)).sum()
    return torch.autograd.grad(bound, logit)[0]


def errors(draws: Tensor, truth: Tensor) -> float:
    return float(((draws.mean(0) - truth).abs() / (draws.var(0) / len(draws)).sqrt()).max())


@pytest.mark.parametrize("rao_blackwell", [False, True])
@pytest.mark.parametrize("control_variate", [False, True])
def test_the_gradient_of_a_discrete_q_is_unbiased(rao_blackwell: bool, control_variate: bool) -> None:
    found = [
        bound_gradient(
            BernoulliFamily(),
            LOGIT,
            lambda z: LogJoint(jumping(z)),
            4,
            credo.Stream(0).child(r),
            baseline=0.5,
            rao_blackwell=rao_blackwell,
            control_variate=control_variate,
        )[0]["logit"]
        for r in range(REPEATS)
    ]
    truth = exact_bernoulli_gradient()
    assert errors(torch.stack(found), truth) < ERRORS
    assert errors(torch.stack(found) * 1.25, truth) > ERRORS  # a twin that divides by S - 1


def test_climbing_the_gradient_finds_the_best_factorized_q_of_a_jumping_log_joint() -> None:
    params = {"logit": torch.zeros(3, dtype=torch.float64)}
    optimizer = credo.Adam()
    memory, baseline = optimizer.init(params), torch.zeros(3, dtype=torch.float64)
    for step in range(300):
        gradient, f = bound_gradient(
            BernoulliFamily(),
            params,
            lambda z: LogJoint(jumping(z)),
            32,
            credo.Stream(1).child(step),
            baseline=baseline,
        )
        baseline = f.mean(0)
        optimizer.update(params, [-gradient["logit"]], memory, 0.05)

    def bound(logit: Tensor) -> Tensor:
        every = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)), dtype=torch.float64)
        log_q = BernoulliFamily().log_prob({"logit": logit}, every).sum(1)
        return (log_q.exp() * (jumping(every) - log_q)).sum()

    grid = torch.linspace(-4, 4, 13, dtype=torch.float64)
    best = max(float(bound(torch.stack(point))) for point in itertools.product(grid, repeat=3))
    assert float(bound(params["logit"])) > best - 0.01  # the optimizer's last steps still move


@dataclass(frozen=True)
class Correlated(Family):
    """A normal in two dimensions that does not factorize: z = mean + root e."""

    def sample(self, params: Params, count: int, rng: credo.Stream) -> Tensor:
        return params["mean"] + rng.normal(count, 2, dtype=torch.float64) @ params["root"].tril().T

    def log_prob(self, params: Params, z: Tensor) -> Tensor:
        root = params["root"].tril()
        return torch.distributions.MultivariateNormal(params["mean"], scale_tril=root).log_prob(z)


def test_a_q_that_does_not_factorize_has_one_factor() -> None:
    """Against the closed bound with a correlated normal target."""
    precision = torch.tensor([[2.0, 0.8], [0.8, 1.0]], dtype=torch.float64)
    params = {
        "mean": torch.tensor([0.5, -0.3], dtype=torch.float64),
        "root": torch.tensor([[0.7, 0.0], [0.2, 0.9]], dtype=torch.float64),
    }

    def log_joint(z: Tensor) -> LogJoint:
        return LogJoint(-0.5 * torch.einsum("si,ij,sj->s", z, precision, z))

    mean, root = (params[name].clone().requires_grad_() for name in ("mean", "root"))
    spread = torch.trace(precision @ root.tril() @ root.tril().T)
    bound = -0.5 * (mean @ precision @ mean + spread) + root.diagonal().log().sum()
    truth = torch.autograd.grad(bound, [mean, root])
    found = [bound_gradient(Correlated(), params, log_joint, 8, credo.Stream(2).child(r))[0] for r in range(1500)]
    assert errors(torch.stack([g["mean"] for g in found]), truth[0]) < ERRORS
    lower = torch.tensor([True, False, True, True])
    assert errors(torch.stack([g["root"] for g in found]).flatten(1)[:, lower], truth[1].flatten()[lower]) < ERRORS


def test_scores_in_closed_form_are_those_of_the_graph() -> None:
    params = {"mean": torch.tensor([0.5, -2.0]).double(), "rho": torch.tensor([-1.0, 2.0]).double()}
    z = NormalFamily().sample(params, 5, credo.Stream(0))
    ours, theirs = NormalFamily().scores(params, z), Family.scores(NormalFamily(), params, z)
    for name in params:
        torch.testing.assert_close(ours[name], theirs[name])
    scale = torch.nn.functional.softplus(params["rho"])
    torch.testing.assert_close(
        NormalFamily().log_prob(params, z), torch.distributions.Normal(params["mean"], scale).log_prob(z)
    )


def test_a_signal_without_rao_blackwellization_is_the_whole_of_one_q() -> None:
    log_q = credo.Stream(0).normal(4, 2, 3, dtype=torch.float64)  # four draws, two members, three factors
    factors, shared = credo.Stream(1).normal(4, 2, 3).double(), credo.Stream(2).normal(4, 2).double()
    own = signal(LogJoint(shared, factors), log_q, rao_blackwell=True, axes=1)
    torch.testing.assert_close(own, shared.unsqueeze(2) + factors - log_q)
    whole = signal(LogJoint(shared, factors), log_q, rao_blackwell=False, axes=1)
    torch.testing.assert_close(whole, (shared + (factors - log_q).sum(2)).unsqueeze(2))


def test_one_draw_has_no_control_variate() -> None:
    scores, f = {"a": torch.tensor([[2.0]])}, torch.tensor([[3.0]])
    assert float(score_gradient(scores, f, control_variate=True)["a"]) == 6.0


class Steps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sign(x)


def test_black_box_vi_learns_a_network_without_derivatives() -> None:
    net = nn.Sequential(nn.Linear(1, 10), Steps(), nn.Linear(10, 1))
    x = torch.linspace(-1, 1, 40).unsqueeze(1)
    y = (x > 0.2).float() - (x < -0.4).float()
    model = credo.Model(net, likelihoods.Gaussian(0.3), priors.Normal(1.0))
    method = BlackBoxVI(epochs=300, batch_size=None, learning_rate=0.03, initial_scale=0.2)
    posterior = credo.fit(model, (x, y), method)
    first, last = posterior.history[0], posterior.history[-1]
    assert last["log_likelihood"] - last["kl"] > first["log_likelihood"] - first["kl"] + 1.0
    assert set(last) == {"epoch", "seconds", "log_likelihood", "kl", "loss"}


@pytest.mark.parametrize("prior", [priors.Normal(), priors.ScaleMixture()])
def test_black_box_vi_moves_members_with_data_of_their_own_and_batch_norm(prior: priors.Prior) -> None:
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    x = credo.Stream(0).normal(20, 2)
    model = credo.Model(net, likelihoods.LearnedGaussian(), prior)
    method = credo.Ensemble(BlackBoxVI(epochs=4, batch_size=8, samples=5), members=3)
    posterior = credo.fit(model, (x, x[:, 0]), method)
    counted = posterior.members().buffers["1.num_batches_tracked"]
    assert counted.tolist() == [12, 12, 12]  # four epochs of three batches, once for each


def test_the_running_baseline_starts_without_a_bias_and_follows_the_signal() -> None:
    model = credo.Model(nn.Linear(1, 1), likelihoods.Gaussian())
    target, method = credo.Target(model, 5), BlackBoxVI(samples=4, baseline_decay=0.5)
    x = torch.linspace(-1, 1, 5).unsqueeze(1)
    state = method.init(target, model.network.given(), credo.Stream(0))
    assert float(state.memory["baseline"]) == 0.0
    after, _ = method.step(target, state, credo.Batch(x, 3 + x), Tick(0, 10, credo.Stream(1)))
    assert float(after.memory["baseline"]) != 0.0
    assert method._started(Tick(1, 10, credo.Stream(0))) * 0.5 == 1.0  # one value, counted half, is that value


@pytest.mark.parametrize("wrong", [{"bayesian": "*weight"}, {"baseline_decay": 1.0}, {"samples": 0}, {"epochs": 0}])
def test_black_box_vi_refuses_in_a_sentence(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        BlackBoxVI(**wrong)


@pytest.mark.parametrize(
    ("numbers", "told"),
    [({"samples": 1}, True), ({"samples": 2}, False), ({"samples": 1, "control_variate": False}, False)],
    ids=str,
)
@pytest.mark.parametrize("members", [1, 2])
def test_a_control_variate_that_has_to_be_left_out_is_told(numbers: dict[str, int], told: bool, members: int) -> None:
    x = credo.Stream(0).normal(10, 2)
    method = credo.Ensemble(BlackBoxVI(epochs=1, **numbers), members)
    notes = credo.fit(credo.Model(nn.Linear(2, 1), likelihoods.Gaussian()), (x, x[:, 0]), method).notes
    assert any("no control variate" in note and "samples=2" in note for note in notes) == told
