"""What can be chosen in Bayes by Backprop, and what a person is told."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, nets, priors
from credo.core.config import encode
from credo.core.trees import Variables, flatten
from credo.methods.ascent import per_example_gradient
from credo.methods.base import Tick
from credo.methods.vi import (
    BayesByBackprop,
    ConstantInit,
    Flipout,
    LocalReparameterization,
    NormalInit,
    Reparameterization,
    UniformInit,
)
from credo.methods.vi.initializers import rho_of
from credo.methods.vi.layers import find_layers

X = credo.Stream(0).normal(30, 3)
Y = X[:, :1].sin()
FAST = {"epochs": 2, "batch_size": 10}


def fit(method: BayesByBackprop, net: nn.Module | None = None, **options) -> credo.Posterior:
    model = credo.Model(net or nets.MLP(3, 1, (6, 5)), likelihoods.Gaussian(0.3))
    return credo.fit(model, (X, Y), method, **options)


def test_an_estimator_is_a_value_or_its_name() -> None:
    assert BayesByBackprop(estimator="flipout").estimator == Flipout()
    assert BayesByBackprop(estimator="local").estimator == LocalReparameterization()
    assert BayesByBackprop().estimator == Reparameterization()
    assert encode(BayesByBackprop(estimator="local"))["estimator"] == {"kind": "LocalReparameterization"}
    with pytest.raises(ValueError, match="reparameterization, local, flipout"):
        BayesByBackprop(estimator="flip")


@pytest.mark.parametrize(
    "wrong", [{"samples": 0}, {"epochs": 0}, {"learning_rate": -1.0}, {"initial_scale": 0.0}, {"batch_size": 0}]
)
def test_numbers_that_cannot_be_meant_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        BayesByBackprop(**wrong)


def test_the_last_layer_alone_can_be_bayesian() -> None:
    posterior = fit(BayesByBackprop(bayesian="layers.5.*", **FAST))
    assert sorted(posterior.scale) == ["layers.5.bias", "layers.5.weight"]
    assert "points, without a distribution: layers.1.weight" in posterior.notes[0]
    drawn = posterior.draw(4).variables.params
    assert bool((drawn["layers.1.weight"] == drawn["layers.1.weight"][:1]).all())
    assert bool((drawn["layers.5.weight"][0] != drawn["layers.5.weight"][1]).all())
    assert float(posterior.predict(X).epistemic.min()) > 0


def test_biases_can_be_points_under_every_estimator() -> None:
    for estimator in ("reparameterization", "local", "flipout"):
        posterior = fit(BayesByBackprop(bayesian="*weight", estimator=estimator, **FAST))
        assert all(name.endswith("weight") for name in posterior.scale)
        assert all(math.isfinite(row["kl"]) for row in posterior.history)


def test_a_pattern_that_matches_nothing_names_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"'head\.\*'.*layers\.1\.weight"):
        fit(BayesByBackprop(bayesian="head.*", **FAST))
    with pytest.raises(ValueError, match=r"bayesian has the pattern 'layer\.3\.bias'.*layers\.3\.bias"):
        fit(BayesByBackprop(bayesian=("layers.3.weight", "layer.3.bias"), **FAST))


def test_a_pattern_may_mean_the_likelihoods_own_parameter() -> None:
    method = BayesByBackprop(bayesian=("layers.3.*", "likelihood.*"), **FAST)
    for likelihood in (None, likelihoods.LearnedGaussian()):
        posterior = credo.fit(credo.Model(nets.MLP(3, 1, (6, 5)), likelihood), (X, Y), method)
        assert sorted(posterior.scale) == ["layers.3.bias", "layers.3.weight", "likelihood.log_scale"]
    with pytest.raises(ValueError, match=r"'likelihood\.\*', which matches no parameter"):
        fit(method)


def test_points_feel_their_prior_unless_told_not_to() -> None:
    """The gradient of a bias that is a point differs by that of its log prior, w / scale^2 per example."""
    model = credo.Model(nn.Linear(3, 1).double(), likelihoods.Gaussian(), priors.Normal(0.5))
    batch, target = credo.Batch(X.double(), Y.double()), credo.Target(model, 30)
    found = []
    for feel in (True, False):
        method = BayesByBackprop(bayesian="weight", prior_of_points=feel)
        state = method.init(target, model.network.given(), credo.Stream(0))
        q = state.leaves()
        bound, *_ = method.objective(target, q, batch, Tick(0, 100, credo.Stream(1)), {})
        found.append(dict(zip(q.mean, per_example_gradient(-bound, list(q.mean.values()), target), strict=True)))
    gradient = state.mean.params["bias"] / 0.5**2 / 30
    first, second = found
    torch.testing.assert_close(first["bias"] - second["bias"], gradient)
    torch.testing.assert_close(first["weight"], second["weight"])


def test_first_values_are_drawn_as_asked() -> None:
    method = BayesByBackprop(initial_mean=NormalInit(0.1), initial_rho=UniformInit(-5.0, -4.0))
    model = credo.Model(nn.Linear(300, 40), likelihoods.LearnedGaussian(0.7))
    target = credo.Target(model, 10)
    variables = model.complete(model.network.given(), 40)
    state = method.init(target, variables, credo.Stream(0))
    weight, rho = state.mean.params["weight"], state.rho["weight"]
    assert abs(float(weight.std()) - 0.1) < 0.1 * 5 / math.sqrt(2 * 12_000)  # 5 standard errors
    assert float(rho.min()) >= -5.0
    assert float(rho.max()) <= -4.0
    assert abs(float(rho.mean()) + 4.5) < 5 / math.sqrt(12 * 12_000)  # likewise
    assert bool((state.mean.params["likelihood.log_scale"] == math.log(0.7)).all())  # no weight of the network
    other = method.init(target, variables, credo.Stream(1))
    assert not torch.equal(other.rho["weight"], rho)
    zeros = BayesByBackprop(initial_mean=ConstantInit(0.0), initial_rho=ConstantInit(0.0)).init(
        target, variables, credo.Stream(0)
    )
    assert float(zeros.mean.params["weight"].abs().max()) == 0.0
    assert float(torch.nn.functional.softplus(zeros.rho["weight"]).mean()) == pytest.approx(math.log(2.0))


@pytest.mark.parametrize("scale", [1e-8, 0.05, 3.0, 60.0])
def test_rho_of_a_scale_is_the_inverse_of_softplus(scale: float) -> None:
    rho = torch.tensor(rho_of(scale), dtype=torch.float64)
    assert float(torch.nn.functional.softplus(rho)) == pytest.approx(scale, rel=1e-9)


def test_wrong_initializers_are_refused() -> None:
    with pytest.raises(ValueError, match="low must be below high"):
        UniformInit(1.0, 0.0)
    with pytest.raises(ValueError, match="scale"):
        NormalInit(0.0)


def test_a_warm_start_begins_at_a_trained_network() -> None:
    trained = fit(credo.MAP(epochs=20))
    begun = fit(BayesByBackprop(epochs=1, learning_rate=1e-12), start=trained)
    for name, w in trained.members().params.items():
        torch.testing.assert_close(begun.mean.params[name], w)


def test_likelihood_and_kl_are_told_apart_and_the_kl_is_the_exact_one() -> None:
    posterior = fit(BayesByBackprop(epochs=1, batch_size=None, learning_rate=1e-12))
    row = posterior.history[-1]
    assert row["kl"] * 30 == pytest.approx(float(posterior.kl()), rel=1e-5)  # single precision
    assert row["log_likelihood"] < 0


def test_ensembles_agree_under_both_plans_for_every_estimator() -> None:
    net = nn.Sequential(nn.Conv1d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(4, 1)).double()
    model = credo.Model(net, likelihoods.Gaussian(0.3), priors.ScaleMixture())
    x, y = X.double().unsqueeze(1), Y.double()
    for estimator in ("reparameterization", "local", "flipout"):
        method = credo.Ensemble(BayesByBackprop(estimator=estimator, samples=2, **FAST), members=3)
        a, b = (credo.fit(model, (x, y), method, plan=plan).tensors() for plan in credo.Plan)
        for name, t in a.items():
            torch.testing.assert_close(t, b[name])


class Mixed(nn.Module):
    """Every kind of parameter that layer noise cannot reach, beside some that it can."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.recurrent = nn.GRU(4, 4, batch_first=True)
        self.convolve = nn.Conv1d(4, 4, 3, padding=1)
        self.expand = nn.ConvTranspose1d(4, 4, 2)
        self.twice = nn.Linear(4, 4)
        self.by_hand = nn.Parameter(torch.randn(4, 4) / 2)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.1)
        self.gain = nn.Parameter(torch.tensor(1.0))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.recurrent(self.embed(x))[0].transpose(1, 2)
        hidden = self.expand(self.convolve(hidden)).mean(2)
        hidden = self.twice(self.twice(hidden)) @ self.by_hand
        return self.head(self.gain * self.drop(self.norm(hidden)))


@pytest.mark.parametrize("estimator", ["local", "flipout"])
def test_what_layer_noise_cannot_reach_falls_back_to_weight_space_and_is_named(estimator: str) -> None:
    model = credo.Model(Mixed(), likelihoods.Categorical())
    x, y = torch.arange(60).view(12, 5) % 7, torch.arange(12) % 2
    posterior = credo.fit(model, (x, y), BayesByBackprop(epochs=3, batch_size=4, estimator=estimator))
    layers = find_layers(model.network, model.network.given(), x)
    assert [layer.weight for layer in layers] == ["convolve.weight", "head.weight"]
    assert " at 2 layer(s); weight space for 13 parameter(s)" in posterior.notes[0]
    assert "embed.weight" in posterior.notes[0]
    assert set(posterior.scale) == set(model.network.layout)
    start = torch.tensor(0.05)
    moved = [name for name, s in posterior.scale.items() if not torch.allclose(s, start, rtol=1e-6)]
    assert set(moved) == set(posterior.scale)  # every scale has felt a gradient


def test_tied_and_reused_weights_are_one_draw() -> None:
    """Noise per call would make two draws of one weight: of w w x it would give the wrong mean."""

    class Squared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(self.layer(x))

    network = credo.Model(Squared(), likelihoods.Gaussian()).network
    assert find_layers(network, network.given(), torch.ones(3, 1)) == ()


def test_a_batch_that_is_not_the_first_axis_falls_back() -> None:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.folded, self.turned = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:  # (B, 4, 3)
            folded = self.folded(x.reshape(-1, 3)).view_as(x)
            return self.turned(folded.transpose(0, 1)).mean(0)

    network = credo.Model(Turned(), likelihoods.Gaussian()).network
    assert find_layers(network, network.given(), torch.ones(5, 4, 3)) == ()


def test_layers_of_a_plain_stack_are_found_with_their_shapes() -> None:
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2, bias=False))
    network = credo.Model(net, likelihoods.Categorical()).network
    first, last = find_layers(network, network.given(), torch.ones(2, 1, 4, 4))
    assert (first.names, first.inputs, first.outputs, first.positions) == (
        ("0.weight", "0.bias"),
        (1, 4, 4),
        (3, 2, 2),
        4,
    )
    assert first.per_channel(first.outputs) == (3, 1, 1)
    assert (last.names, last.positions, last.per_channel(last.inputs)) == (("3.weight",), 1, (12,))


def test_an_input_of_zeros_has_finite_gradients() -> None:
    """The variance of a layer without bias is zero there, where the root has no derivative."""
    model = credo.Model(nn.Linear(3, 1, bias=False), likelihoods.Gaussian())
    posterior = credo.fit(model, (torch.zeros(8, 3), torch.ones(8, 1)), BayesByBackprop(epochs=3, estimator="local"))
    assert all(bool(torch.isfinite(t).all()) for t in posterior.tensors().values())


def test_the_noise_comes_from_streams_alone() -> None:
    net, method = nets.MLP(3, 1, (6, 5)), BayesByBackprop(estimator="flipout", **FAST)
    before = torch.get_rng_state()
    one, again = (fit(method, net, seed=4).tensors() for _ in range(2))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert torch.equal(before, torch.get_rng_state())


def test_a_learning_rate_for_the_summed_loss_is_that_for_the_mean_times_the_batch() -> None:
    """One step of plain SGD on the batch's sum of losses + KL / M, as the notebook of Koca and Dittmann takes it."""
    model = credo.Model(nn.Linear(3, 1).double(), likelihoods.Gaussian(), priors.Normal(1.0))
    target = credo.Target(model, 30)  # three batches of ten
    batch = credo.Batch(X[:10].double(), Y[:10].double())
    method = BayesByBackprop(epochs=1, batch_size=10, learning_rate=0.001 * 10, optimizer=credo.SGD())
    state = method.init(target, model.network.given(), credo.Stream(0))
    mean = {name: w.clone().requires_grad_() for name, w in state.mean.params.items()}
    rho = {name: r.clone().requires_grad_() for name, r in state.rho.items()}
    scale = {name: torch.nn.functional.softplus(r) for name, r in rho.items()}
    noise = state.leaves().noise(rho, credo.Stream(1).child(0, "weights"))
    weights = {name: mean[name] + scale[name] * noise[name] for name in mean}
    fit_ = target.log_likelihood(Variables(weights), batch).sum()
    loss = model.prior.kl(mean, scale, model.network.layout).sum() / 3 - fit_
    gradients = torch.autograd.grad(loss, [*mean.values(), *rho.values()])
    expected = [t - 0.001 * g for t, g in zip((*mean.values(), *rho.values()), gradients, strict=True)]
    after, _ = method.step(target, state, batch, Tick(0, 3, credo.Stream(1)))
    for ours, theirs in zip((*after.mean.params.values(), *after.rho.values()), expected, strict=True):
        torch.testing.assert_close(ours, theirs.detach())


@pytest.mark.parametrize("estimator", ["reparameterization", "local", "flipout"])
def test_it_trains_under_autocast(estimator: str) -> None:
    x = credo.Stream(0).normal(40, 5)
    y = (x[:, 0] > 0).long()
    model = credo.Model(credo.nets.MLP(5, 2, (8,)), likelihoods.Categorical())
    method = BayesByBackprop(epochs=40, learning_rate=0.03, estimator=estimator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        posterior = credo.fit(model, (x, y), method, progress=False)
    assert float((posterior.predict(x).label == y).double().mean()) > 0.9


@pytest.mark.parametrize(
    "method", [BayesByBackprop(estimator="local"), credo.BlackBoxVI(samples=2)], ids=["path", "score"]
)
def test_a_step_moves_q_and_its_optimizers_in_place(method: credo.BayesByBackprop | credo.BlackBoxVI) -> None:
    """A step that a GPU has recorded reads and writes where it did when it was recorded."""
    model = credo.Model(nets.MLP(3, 1, (4,)), likelihoods.Gaussian())
    target = credo.Target(model, 30)
    state = method.init(target, model.network.given(), credo.Stream(0))
    before = {name: (t.data_ptr(), t.clone()) for name, t in flatten(state).items() if "memory" not in name}
    after, _ = method.step(target, state, credo.Batch(X, Y), Tick(0, 10, credo.Stream(1)))
    for name, (address, value) in before.items():
        assert flatten(after)[name].data_ptr() == address
        assert not torch.equal(flatten(after)[name], value), name
