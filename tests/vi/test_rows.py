"""Rows of tensors, the noise that fills them, and gradients that are gathered from parts of them."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor, nn

import credo
from credo import likelihoods, priors
from credo.core.trees import Params, Variables
from credo.methods.base import Tick
from credo.methods.vi import BayesByBackprop, LocalReparameterization
from credo.methods.vi.flipout import random_signs
from credo.methods.vi.layers import Affine
from credo.methods.vi.rows import BLOCK, Row, runs, standard_normal

ERROR_RATE = 1e-6


def tree() -> Params:
    shapes = {"a": (2, 3), "b": (2, 2, 2), "c": (2,)}
    return {name: credo.Stream(0, (name,)).normal(*shape) for name, shape in shapes.items()}


def test_a_row_gives_back_its_tensors_as_views() -> None:
    given, row = tree(), Row.of(tree())
    assert list(row.tree()) == list(given)
    for name, t in row.tree().items():
        assert torch.equal(t, given[name])
        assert t.untyped_storage().data_ptr() == row.values.untyped_storage().data_ptr()
    assert row.chosen(("a", "b", "c")) is row
    assert torch.equal(row.chosen(("c", "a")).tree()["a"], given["a"])


def test_runs_join_neighbours_and_nothing_else() -> None:
    row = Row.of(tree())
    assert runs(row.shapes, row.shapes) == [(slice(0, 16), slice(0, 16))]
    for names, expected in ((("b", "c"), 1), (("c", "b"), 2), (("a", "c"), 2)):
        part = row.chosen(names)
        assert len(runs(row.shapes, part.shapes)) == expected
        for there, here in runs(row.shapes, part.shapes):
            assert torch.equal(row.values[there], part.values[here])


@pytest.mark.parametrize("size", [10, BLOCK + 1, 4 * BLOCK + 3])
def test_noise_is_standard_normal_and_the_same_on_any_number_of_threads(size: int) -> None:
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(standard_normal(torch.empty(size), credo.Stream(1)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
    assert stats.kstest(found[0].double().numpy(), stats.norm.cdf).pvalue > ERROR_RATE
    assert len(found[0].unique()) > 0.9 * size  # blocks of one stream would give every number several times
    if size > 1000:
        assert stats.kstest(1.1 * found[0].double().numpy(), stats.norm.cdf).pvalue < ERROR_RATE  # the twin


def test_random_signs_are_fair_and_of_no_pattern() -> None:
    """200,000 signs: their sum, and that of products of neighbours up to eight apart, within 5 standard errors."""
    first, second = random_signs([(200_000,), (7, 3)], torch.zeros(1, dtype=torch.float64), credo.Stream(3))
    assert second.shape == (7, 3)
    assert set(first.tolist()) == {-1.0, 1.0}
    for shift in range(9):
        product = first[shift:] * first[: len(first) - shift] if shift else first
        assert abs(float(product.sum())) < 5 * len(product) ** 0.5


def plain_local(affine: Affine, x: Tensor, weight: Tensor, bias: Tensor | None, own: list[Tensor]) -> Tensor:
    noise, of_weight, *of_bias = own
    variance = affine(x.square(), of_weight, of_bias[0] if of_bias else None)
    return affine(x, weight, bias) + variance.sqrt() * noise


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("lead", [(5,), (5, 4)], ids=["rows", "sequences"])
def test_a_linear_layer_s_own_node_has_the_gradient_of_the_graph(lead: tuple[int, ...], with_bias: bool) -> None:
    shapes = {
        "x": (*lead, 3),
        "weight": (2, 3),
        "bias": (2,),
        "of_weight": (2, 3),
        "of_bias": (2,),
        "noise": (*lead, 2),
    }
    given = {name: credo.Stream(0, (name,)).normal(*shape, dtype=torch.float64) for name, shape in shapes.items()}
    given["of_weight"], given["of_bias"] = given["of_weight"].square(), given["of_bias"].square()
    found = []
    for call in (LocalReparameterization(), plain_local):
        leaves = {name: t.clone().requires_grad_() for name, t in given.items() if name != "noise"}
        own = [given["noise"], leaves["of_weight"], *([leaves["of_bias"]] if with_bias else [])]
        affine = partial(F.linear)
        out = call(affine, leaves["x"], leaves["weight"], leaves["bias"] if with_bias else None, own)
        names = [name for name in leaves if with_bias or "bias" not in name]
        found.append((out, *torch.autograd.grad(out.sin().sum(), [leaves[name] for name in names])))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_examples_of_nothing_but_zeros_leave_local_gradients_finite() -> None:
    net = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 1, bias=False))
    model, x = credo.Model(net, likelihoods.Gaussian()), torch.zeros(6, 3)
    x[0] = 1.0
    method = BayesByBackprop(estimator="local")
    target = credo.Target(model, 6)
    state = method.init(target, model.network.given(), credo.Stream(0))
    found = method.gradient(target, state, credo.Batch(x, torch.zeros(6, 1)), Tick(0, 100, credo.Stream(1)))
    assert bool(found.mean.values.isfinite().all() and found.rho.values.isfinite().all())


@pytest.mark.parametrize("prior", [priors.ScaleMixture(0.5, 1.0, 0.1, fan_in=True), priors.StudentT(3.0, 0.5)])
@pytest.mark.parametrize("feel", [True, False])
def test_gradients_of_some_weights_and_points_are_those_of_a_graph(prior: priors.Prior, feel: bool) -> None:
    """The middle parameters have a distribution, so that rows differ in order; two draws, a prior by Monte Carlo."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    model, x = credo.Model(net, likelihoods.Gaussian(0.5), prior), credo.Stream(4).normal(5, 2, dtype=torch.float64)
    target, batch = credo.Target(model, 5, temperature=0.7), credo.Batch(x, x[:, :1].sin())
    method = BayesByBackprop(samples=2, bayesian=("0.bias", "2.weight"), prior_of_points=feel)
    state, noise = method.init(target, model.network.given(), credo.Stream(0)), credo.Stream(1)
    found = method.gradient(target, state, batch, Tick(0, 100, noise))

    mean, rho = ({n: t.clone().requires_grad_() for n, t in v.items()} for v in (state.mean.params, state.rho))
    bound = torch.zeros((), dtype=torch.float64)
    for s in range(2):
        row = Row(standard_normal(state.rhos.values, noise.child(s, "weights")), state.rhos.shapes).tree()
        w = {n: mean[n] + F.softplus(rho[n]) * row[n] if n in rho else mean[n] for n in mean}
        felt = {n: w[n] for n in model.network.layout if feel or n in rho}
        log_prior = prior.log_prob(felt, model.network.layout).sum()
        bound = bound + (target.log_likelihood(Variables(w), batch).sum() + log_prior) / 2
    entropy = sum(F.softplus(r).log().sum() for r in rho.values())
    loss = -(bound / 0.7 + entropy) / 5
    expected = torch.autograd.grad(loss, [*mean.values(), *rho.values()])
    for ours, theirs in zip((*found.mean.tree().values(), *found.rho.tree().values()), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_points_are_part_of_the_kl_only_if_they_feel_their_prior() -> None:
    model = credo.Model(nn.Linear(3, 1).double(), likelihoods.Gaussian(), priors.Normal(0.5))
    target, told = credo.Target(model, 10), []
    for feel in (True, False):
        method = BayesByBackprop(bayesian="weight", prior_of_points=feel)
        state = method.init(target, model.network.given(), credo.Stream(0))
        told.append(method.summary(target, state, credo.Stream(1))["kl"])
    bias = {"bias": state.mean.params["bias"]}
    torch.testing.assert_close(told[0] - told[1], -model.prior.log_prob(bias, model.network.layout) / 10)
