"""Laplace's method for several heads, in float64: against loops over examples, exact regression and integrals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods
from credo.exact import GaussianWeights, LinearRegression, with_intercept
from credo.likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, Joint, LearnedGaussian, Poisson
from credo.posteriors import LaplaceGaussian
from credo.predictive import OutputNormal, gaussian_predictive
from credo.predictive.gaussian_heads import GaussianJointPredictive
from laplace_nets import inputs, model_of, order_of, places, rows

MODEL = {"precision": "model"}
WIDTHS = {"price": 2, "kind": 3, "count": 1, "yes": 1, "noisy": 2}
N = 12


class Heads(nn.Module):
    """A body and a linear layer for each head."""

    def __init__(self, widths: Mapping[str, int]) -> None:
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.heads = nn.ModuleDict({name: nn.Linear(4, width) for name, width in widths.items()})

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = torch.tanh(self.body(x))
        return {name: head(h) for name, head in self.heads.items()}


def net_of(widths: Mapping[str, int] = WIDTHS) -> nn.Module:
    with credo.Stream(2, ("heads",)).borrowed_global():
        return Heads(widths).double()


def likelihood() -> Joint:
    return Joint(
        price=Gaussian(0.3), kind=Categorical(), count=Poisson(), yes=Bernoulli(), noisy=HeteroscedasticGaussian()
    )


def data() -> tuple[Tensor, dict[str, Tensor]]:
    """Of which some examples lack some targets."""
    x, rng = inputs(N, 3), torch.Generator().manual_seed(0)
    y = {
        "price": x[:, :2] + 0.1 * inputs(N, 2, seed=1),
        "kind": torch.randint(0, 3, (N,), generator=rng),
        "count": torch.randint(0, 4, (N, 1), generator=rng).double(),
        "yes": torch.randint(0, 2, (N, 1), generator=rng).double(),
        "noisy": inputs(N, 1, seed=2),
    }
    y["price"][:3] = math.nan
    y["kind"][2:6] = -100
    y["count"][7] = math.nan
    return x, y


def fisher_by_hand(name: str, f: Tensor) -> Tensor:
    """E[-d^2 log p / df^2] of one example by its formula."""
    if name == "price":
        return torch.eye(2).double() / 0.3**2
    if name == "kind":
        p = f.softmax(0)
        return p.diag() - p.outer(p)
    if name == "count":
        return f.exp().diag()
    if name == "yes":
        return (f.sigmoid() * (1 - f.sigmoid())).diag()
    scale = nn.functional.softplus(f[1]) + 1e-3
    return torch.stack([scale**-2, 2 * (f[1].sigmoid() / scale) ** 2]).diag()


def truth_of(posterior: LaplaceGaussian, x: Tensor, y: Mapping[str, Tensor], *, missing: bool = True) -> Tensor:
    """The Gauss-Newton matrix by a loop over examples and heads that were observed, in the order of the blocks."""
    jacobian = rows(posterior.model, posterior.mean, x, order_of(posterior))
    outputs = posterior.model.network.evaluate(posterior.mean, x)[0]
    total = torch.zeros(jacobian.shape[-1], jacobian.shape[-1]).double()
    for b in range(len(x)):
        start = 0
        for name, width in WIDTHS.items():
            here = slice(start, start + width)
            gone = y[name][b].isnan().any() if y[name].is_floating_point() else y[name][b] == -100
            if not (missing and gone):
                j = jacobian[b, here]
                total += j.T @ fisher_by_hand(name, outputs[b, here]) @ j
            start += width
    order = places(posterior)
    return total[order][:, order]


def curvature_of(posterior: LaplaceGaussian) -> Tensor:
    whole = torch.linalg.inv(posterior.covariance())
    return whole - torch.eye(len(whole)).double() / 0.7**2


def fitted(net: nn.Module, given: likelihoods.Likelihood, x: Tensor, y: Any, **options: Any) -> LaplaceGaussian:
    posterior = credo.fit(model_of(net, given), (x, y), credo.Laplace(**{**MODEL, **options}))
    assert isinstance(posterior, LaplaceGaussian)
    return posterior


@pytest.mark.parametrize("structure", ["dense", "diagonal"])
def test_the_curvature_is_that_of_a_loop_over_observed_heads(structure: str) -> None:
    x, y = data()
    posterior = fitted(net_of(), likelihood(), x, y, structure=structure, batch_size=5)
    truth = truth_of(posterior, x, y)
    truth = truth if structure == "dense" else truth.diagonal().diag()
    torch.testing.assert_close(curvature_of(posterior), truth, rtol=1e-7, atol=1e-7)  # an inverse of an inverse
    twin = truth_of(posterior, x, y, missing=False)  # which counts targets that nobody observed
    assert not torch.allclose(curvature_of(posterior).diagonal(), twin.diagonal(), rtol=1e-2)


def test_products_of_one_example_have_the_blocks_of_the_loop() -> None:
    """A layer's output curvature times the outer product of its inputs: exact where there is one example."""
    x, y = data()
    posterior = fitted(net_of(), likelihood(), x[8:9], {name: t[8:9] for name, t in y.items()})
    truth = truth_of(posterior, x[8:9], {name: t[8:9] for name, t in y.items()})
    sizes = [block.layout.size for block in posterior.blocks]
    blocks = [truth[end - n : end, end - n : end] for n, end in zip(sizes, torch.tensor(sizes).cumsum(0), strict=True)]
    torch.testing.assert_close(curvature_of(posterior), torch.block_diag(*blocks), rtol=1e-7, atol=1e-7)  # as above


def test_the_fisher_of_observed_targets_is_that_of_the_whole_gradient() -> None:
    x, y = data()
    posterior = fitted(net_of(), likelihood(), x, y, structure="dense", curvature="fisher", batch_size=4)
    names, variables = order_of(posterior), posterior.mean
    leaves = {n: variables.params[n].clone().requires_grad_() for n in names}
    outputs = posterior.model.network.evaluate(credo.Variables({**variables.params, **leaves}, variables.buffers), x)
    target = posterior.model.likelihood.check_targets(credo.core.inputs.TensorTree(y), 0)
    each = posterior.model.likelihood.log_prob(outputs, target, {})[0]
    g = [torch.cat([t.flatten() for t in torch.autograd.grad(o, [*leaves.values()], retain_graph=True)]) for o in each]
    lines = torch.stack(g)[:, places(posterior)]
    torch.testing.assert_close(curvature_of(posterior), lines.T @ lines, rtol=1e-7, atol=1e-7)  # as above


@pytest.mark.parametrize("structure", ["dense", "diagonal", "kronecker"])
def test_the_linearized_predictive_is_the_dense_formula_of_all_heads(structure: str) -> None:
    x, y = data()
    posterior = fitted(net_of(), likelihood(), x, y, structure=structure)
    jacobian = rows(posterior.model, posterior.mean, x, order_of(posterior))[:, :, places(posterior)]
    truth = jacobian @ posterior.covariance() @ jacobian.mT
    torch.testing.assert_close(posterior.output_normal(x).covariance[0], truth)
    prediction = posterior.predict(x)
    torch.testing.assert_close(prediction["price"].epistemic, truth.diagonal(dim1=1, dim2=2)[:, :2])
    for name in ("probit", "bridge"):
        kind = posterior.with_prediction(name).predict(x)["kind"]
        normal = OutputNormal(posterior.output_normal(x).mean[..., 2:5], truth[None, :, 2:5, 2:5])
        how = credo.predictive.Probit() if name == "probit" else credo.predictive.LaplaceBridge()
        alone = gaussian_predictive(Categorical(), normal, {}, torch.zeros(1), how)
        torch.testing.assert_close(kind.probs, alone.probs)
    assert posterior.with_prediction("bridge").predict(x)["yes"].probs.shape == (N, 1)


class Scaled(nn.Module):
    """One linear function, seen in two units."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 1).double()
        with torch.no_grad():
            self.linear.weight.copy_(weights[:2])
            self.linear.bias.copy_(weights[2])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.linear(x)
        return z, 3.0 * z


def regression(x: Tensor, first: Tensor, second: Tensor) -> tuple[LinearRegression, float]:
    """Both heads as one regression, each in units of its noise, and what these units add to the evidence."""
    a, b = ~first.isnan()[:, 0], ~second.isnan()[:, 0]
    design = torch.cat([with_intercept(x[a]) / 0.2, with_intercept(x[b]) * 3.0 / 0.5])
    y = torch.cat([first[a] / 0.2, second[b] / 0.5])
    units = -float(a.sum()) * math.log(0.2) - float(b.sum()) * math.log(0.5)
    return LinearRegression(design, y, 1.0, GaussianWeights.isotropic(3, scale=2.0)), units


def seen_twice() -> tuple[Tensor, Tensor, Tensor]:
    x = inputs(25, 2)
    z = x @ torch.tensor([[1.5], [-0.7]]).double() + 0.3
    first, second = z + 0.2 * inputs(25, 1, seed=1), 3 * z + 0.5 * inputs(25, 1, seed=2)
    first[:5] = second[3:9] = math.nan
    return x, first, second


def test_two_heads_of_one_linear_function_are_an_exact_regression() -> None:
    """Mean, covariance, evidence, and the probability of both targets together; independent heads are rejected."""
    x, first, second = seen_twice()
    exact, units = regression(x, first, second)
    given = Joint(first=Gaussian(0.2), second=Gaussian(0.5))
    net = Scaled(exact.posterior.mean)
    model = credo.Model(net, given, credo.priors.Normal(2.0), outputs={"first": 0, "second": 1})
    y = {"first": first, "second": second}
    posterior = credo.fit(model, (x, y), credo.Laplace(structure="dense", batch_size=7, **MODEL))
    torch.testing.assert_close(posterior.covariance(), exact.posterior.covariance, rtol=1e-9, atol=1e-12)
    assert posterior.log_evidence.value == pytest.approx(exact.log_evidence + units, abs=1e-9)
    new, at = inputs(6, 2, seed=5), {"first": inputs(6, 1, seed=6), "second": 2 * inputs(6, 1, seed=7)}
    prediction = posterior.predict(new)
    variance = (with_intercept(new) @ exact.posterior.covariance * with_intercept(new)).sum(1, keepdim=True)
    torch.testing.assert_close(prediction["second"].epistemic, 9.0 * variance)
    cross = torch.tensor([[1.0, 3.0], [3.0, 9.0]]).double() * variance.unsqueeze(-1)
    mean = (with_intercept(new) @ exact.posterior.mean).unsqueeze(1) * torch.tensor([[1.0, 3.0]]).double()
    noise = torch.tensor([0.04, 0.25]).double().diag()
    truth = torch.distributions.MultivariateNormal(mean, cross + noise).log_prob(torch.cat([*at.values()], 1))
    torch.testing.assert_close(prediction.log_prob(at), truth)
    apart = prediction["first"].log_prob(at["first"]) + prediction["second"].log_prob(at["second"])
    assert not torch.allclose(prediction.log_prob(at), apart, atol=0.01)
    at["first"][2:4] = math.nan
    some = prediction.log_prob(at)
    torch.testing.assert_close(some[:2], truth[:2])
    torch.testing.assert_close(some[2:4], prediction["second"].log_prob(at["second"])[2:4])
    at["second"][3] = math.nan
    assert float(prediction.log_prob(at)[3]) == pytest.approx(0.0, abs=1e-12)


def test_learned_noise_of_all_heads_is_that_of_columns() -> None:
    """Two heads with a number each, and one head with two: the same noise, precision, evidence and prediction."""
    x, y = inputs(30, 3), inputs(30, 2, seed=3)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    columns = credo.fit(credo.Model(net, LearnedGaussian(), credo.priors.Normal()), (x, y), credo.Laplace())
    joint = Joint(a=LearnedGaussian(), b=LearnedGaussian())
    model = credo.Model(net, joint, credo.priors.Normal(), outputs=lambda out: {"a": out[:, :1], "b": out[:, 1:]})
    heads = credo.fit(model, (x, {"a": y[:, 0], "b": y[:, 1]}), credo.Laplace())
    torch.testing.assert_close(heads.evidence, columns.evidence)
    both = torch.cat([heads.mean.params[f"likelihood.{name}.log_scale"] for name in "ab"], dim=1)
    torch.testing.assert_close(both, columns.mean.params["likelihood.log_scale"])
    at = inputs(30, 2, seed=4)
    ours = heads.predict(x).log_prob({"a": at[:, 0], "b": at[:, 1]})
    torch.testing.assert_close(ours, columns.predict(x).log_prob(at))


def test_learned_noise_beside_classes_stays_at_its_estimate() -> None:
    """The evidence of classes does not scale with a noise: residuals / N, and the notes say so."""
    net, (x, y) = net_of({"price": 2, "kind": 3}), data()
    part = {name: y[name] for name in ("price", "kind")}
    model = credo.Model(net, Joint(price=LearnedGaussian(), kind=Categorical()), credo.priors.Normal())
    posterior = credo.fit(model, (x, part), credo.Laplace())
    residuals = (y["price"] - net(x)["price"].detach())[3:]
    scale = posterior.mean.params["likelihood.price.log_scale"][0].exp()
    torch.testing.assert_close(scale, residuals.square().mean(0).sqrt())
    assert any("the noise of 'price' is that of the residuals" in note for note in posterior.notes)


def test_a_number_and_a_yes_together_by_an_integral() -> None:
    """The probability of both by quadrature over the logit given the number, within five standard errors of draws."""
    net, (x, y) = net_of({"price": 1, "yes": 1}), data()
    part = {"price": y["price"][:, :1], "yes": y["yes"]}
    model = credo.Model(net, Joint(price=Gaussian(0.3), yes=Bernoulli()), credo.priors.Normal(2.0))
    posterior = credo.fit(model, (x, part), credo.Laplace(structure="dense", **MODEL))
    prediction = posterior.predict(x)
    assert isinstance(prediction, GaussianJointPredictive)
    mean, c = prediction.outputs.mean[0], prediction.outputs.covariance[0]
    target = torch.where(part["price"].isnan(), 0.5, part["price"])
    total = c[:, 0, 0] + 0.09
    center = mean[:, 1] + c[:, 1, 0] / total * (target[:, 0] - mean[:, 0])
    width = (c[:, 1, 1] - c[:, 1, 0] ** 2 / total).sqrt()
    grid = torch.linspace(-8, 8, 2001).double().unsqueeze(1)
    f = center + width * grid
    p = torch.where(y["yes"][:, 0] > 0, f.sigmoid(), (-f).sigmoid())
    density = (-0.5 * grid.square()).exp() / math.sqrt(2 * math.pi)
    integral = torch.trapezoid(p * density, grid, dim=0)
    truth = torch.distributions.Normal(mean[:, 0], total.sqrt()).log_prob(target[:, 0]) + integral.log()
    error = (torch.trapezoid(p.square() * density, grid, dim=0) - integral**2).sqrt() / integral / math.sqrt(20_000)
    found = replace(prediction, count=20_000).log_prob({"price": target, "yes": y["yes"]})
    assert bool(((found - truth).abs() < 5.0 * error + 1e-9).all())
    alone = torch.distributions.Normal(mean[:, 0], total.sqrt()).log_prob(target[:, 0])
    alone = alone + torch.where(y["yes"] > 0, prediction["yes"].probs, 1 - prediction["yes"].probs)[:, 0].log()
    assert bool(((found - alone).abs() > 5.0 * error).any())  # heads that were independent of each other


def test_samples_of_all_heads_come_from_the_same_outputs() -> None:
    """Means and covariance of both heads, within five standard errors."""
    x, first, second = seen_twice()
    exact, _ = regression(x, first, second)
    given = Joint(first=Gaussian(0.2), second=Gaussian(0.5))
    model = credo.Model(Scaled(exact.posterior.mean), given, outputs={"first": 0, "second": 1})
    posterior = credo.fit(model, (x[:6], {"first": first[:6], "second": second[:6]}), credo.Laplace(**MODEL))
    prediction = posterior.predict(x[:1])
    drawn = prediction.sample(4000, seed=1)
    both = torch.cat([drawn["first"][:, 0], drawn["second"][:, 0]], dim=1)
    noise = torch.tensor([0.04, 0.25]).double().diag()
    whole = prediction.outputs.covariance[0, 0] + noise
    scale = whole.diagonal().sqrt()
    z = (both - prediction.outputs.mean[0, 0]) / scale
    assert bool((z.mean(0).abs() < 5 / 4000**0.5).all())
    correlation = float((z[:, 0] * z[:, 1]).mean())
    assert abs(correlation - float(whole[0, 1] / scale.prod())) < 5 * 2**0.5 / 4000**0.5
    assert abs(correlation) > 5 * 2**0.5 / 4000**0.5


def test_the_last_layer_of_heads_is_that_of_each() -> None:
    x, y = data()
    posterior = fitted(net_of(), likelihood(), x, y, subset="last")
    assert sorted(order_of(posterior)) == sorted(f"heads.{name}.{p}" for name in WIDTHS for p in ("weight", "bias"))


def test_a_head_with_positions() -> None:
    """A class for each pixel beside a number: the loop over pixels that were observed, and one number each."""

    class Image(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.pixels, self.size = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 2, 1), nn.Linear(2, 1)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            h = torch.tanh(self.first(x))
            return {"pixels": self.pixels(h), "size": self.size(h.mean((2, 3)))}

    with credo.Stream(0, ("image",)).borrowed_global():
        net = Image().double()
    x = inputs(3, 1, 2, 2)
    y = {"pixels": torch.tensor([[[0, 1], [-100, 1]], [[1, 1], [0, 0]], [[-100] * 2] * 2]), "size": inputs(3, 1)}
    given = Joint(pixels=Categorical(), size=Gaussian(0.5))
    model = credo.Model(net, given, credo.priors.Normal(0.7), class_axis=1)
    posterior = credo.fit(model, (x, y), credo.Laplace(structure="dense", batch_size=2, **MODEL))
    jacobian = rows(posterior.model, posterior.mean, x, order_of(posterior))[:, :, places(posterior)]
    outputs = posterior.model.network.evaluate(posterior.mean, x)[0]
    total = jacobian[:, 8:].mT @ jacobian[:, 8:] / 0.25
    for b, h, w in (y["pixels"] != -100).nonzero().tolist():
        here = [2 * h + w, 4 + 2 * h + w]
        p = outputs[b, here].softmax(0)
        total[b] += jacobian[b, here].T @ (p.diag() - p.outer(p)) @ jacobian[b, here]
    torch.testing.assert_close(curvature_of(posterior), total.sum(0), rtol=1e-7, atol=1e-7)  # an inverse of an inverse
    prediction = posterior.predict(x)
    assert prediction["pixels"].probs.shape == (3, 2, 2, 2)
    assert posterior.predict(x, draws=3)["pixels"].probs.shape == (3, 2, 2, 2)


def test_saved_heads_predict_the_same(tmp_path: Path) -> None:
    x, y = data()
    posterior = fitted(net_of(), likelihood(), x, y)
    read = credo.load(posterior.save(tmp_path / "run"), net_of())
    y_all = {name: torch.nan_to_num(t) if t.is_floating_point() else t.clamp_min(0) for name, t in y.items()}
    for each in ("linearized", "probit", "bridge", "weights"):
        ours, theirs = posterior.with_prediction(each).predict(x), read.with_prediction(each).predict(x)
        assert torch.equal(ours.log_prob(y_all), theirs.log_prob(y_all))
        assert torch.equal(ours["kind"].probs, theirs["kind"].probs)
    assert torch.equal(posterior.evidence, read.evidence)


def test_units_of_standardized_heads() -> None:
    """With nothing given the heads are standardized inside: the same doubt in grams as in kilograms."""
    x = inputs(40, 3)
    y = {"weight": x.sum(1) + 0.1 * inputs(40, seed=1), "kind": (x[:, 0] > 0).long()}
    method, found = credo.Laplace(after=credo.MAP(epochs=40, learning_rate=0.03, batch_size=None), batch_size=None), {}
    for unit in (1.0, 1000.0):
        net = net_of({"weight": 1, "kind": 2})
        data = {"weight": unit * y["weight"], "kind": y["kind"]}
        posterior = credo.fit(net, (x, data), method)
        prediction = posterior.predict(x)
        found[unit] = prediction["weight"].stddev / unit, prediction.log_prob(data) + math.log(unit)
        pair = {"weight": data["weight"], "kind": torch.full((40,), -100)}
        torch.testing.assert_close(prediction.log_prob(pair), prediction["weight"].log_prob(data["weight"]))
    torch.testing.assert_close(found[1.0], found[1000.0], rtol=1e-4, atol=1e-4)  # rounding grows through the training


def test_what_has_no_meaning_is_said() -> None:
    x, y = data()
    posterior = fitted(net_of(), likelihood(), x, y)
    prediction = posterior.predict(x)
    with pytest.raises(ValueError, match=r"prediction\['price'\].expected_entropy"):
        _ = prediction.expected_entropy
    with pytest.raises(ValueError, match="predict by drawn functions"):
        prediction.joint_log_prob(y)
    assert posterior.predict(x, draws=5).joint_log_prob(y).isfinite()
    with pytest.raises(ValueError, match="prediction='bridge' is for one of K classes"):
        fitted(net_of({"yes": 1}), Joint(yes=Bernoulli()), x, {"yes": y["yes"]}, prediction="bridge")
