"""The evidence, and what it chooses: exact on linear models, and the top of the curve everywhere."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, nets, priors
from credo.exact import GaussianWeights, LinearRegression, with_intercept
from credo.methods.laplace.evidence import Fit, largest_evidence
from laplace_nets import inputs

NOISE, PRIOR = 0.2, 2.0


def line(rows: int = 30) -> tuple[Tensor, Tensor, LinearRegression, nn.Module]:
    """Linear regression with its exact posterior, and a network at the posterior's mean."""
    x = inputs(rows, 2)
    y = x @ torch.tensor([[1.5], [-0.7]]).double() + 0.3 + NOISE * inputs(rows, 1, seed=1)
    exact = LinearRegression(with_intercept(x), y, NOISE, GaussianWeights.isotropic(3, scale=PRIOR))
    return x, y, exact, at(exact.posterior.mean)


def at(weights: Tensor) -> nn.Module:
    net = nn.Linear(2, 1).double()
    with torch.no_grad():
        net.weight.copy_(weights[:2])
        net.bias.copy_(weights[2:])
    return net


@pytest.mark.parametrize("structure", ["dense", "kronecker"])
@pytest.mark.parametrize("batch_size", [None, 7])
def test_linear_regression_is_exact(structure: str, batch_size: int | None) -> None:
    """Mean, covariance, evidence and predictive; a diagonal of the same is rejected."""
    x, y, exact, net = line()
    model = credo.Model(net, likelihoods.Gaussian(NOISE), priors.Normal(PRIOR))
    method = credo.Laplace(structure=structure, precision="model", batch_size=batch_size)
    posterior, new = credo.fit(model, (x, y), method), inputs(9, 2, seed=2)
    torch.testing.assert_close(posterior.covariance(), exact.posterior.covariance, rtol=1e-9, atol=1e-12)
    assert abs(posterior.log_evidence.value - exact.log_evidence) < 1e-9
    prediction, truth = posterior.predict(new), exact.predict(with_intercept(new))
    torch.testing.assert_close(prediction.mean, truth.mean)
    torch.testing.assert_close(prediction.epistemic, truth.epistemic)
    torch.testing.assert_close(prediction.aleatoric, truth.aleatoric)
    y_new = inputs(9, 1, seed=3)
    torch.testing.assert_close(prediction.log_prob(y_new), truth.log_prob(y_new))
    twin = credo.fit(model, (x, y), credo.Laplace(structure="diagonal", precision="model"))
    assert abs(twin.log_evidence.value - exact.log_evidence) > 1e-3
    assert not torch.allclose(twin.predict(new).epistemic, truth.epistemic, rtol=1e-2)


def test_draws_of_weights_and_of_functions_are_one_for_a_linear_network() -> None:
    x, y, _, net = line()
    model = credo.Model(net, likelihoods.Gaussian(NOISE), priors.Normal(PRIOR))
    linearized = credo.fit(model, (x, y), credo.Laplace(precision="model"))
    weights = linearized.with_prediction("weights")
    torch.testing.assert_close(linearized.draw(5, seed=1)(x), weights.draw(5, seed=1)(x))


def test_weights_away_from_the_mode_are_told() -> None:
    x, y, exact, net = line()
    model = credo.Model(net, likelihoods.Gaussian(NOISE), priors.Normal(PRIOR))
    assert not any("not at the mode" in note for note in credo.fit(model, (x, y), credo.Laplace()).notes)
    off = credo.Model(at(exact.posterior.mean + 0.3), likelihoods.Gaussian(NOISE), priors.Normal(PRIOR))
    notes = credo.fit(off, (x, y), credo.Laplace(precision="model")).notes
    expected = exact.log_joint(exact.posterior.mean) - exact.log_joint(exact.posterior.mean + 0.3)
    assert any(f"by about {float(expected):.3g} nats" in note for note in notes)


def brute_force(fit: Fit, precision: float, noise: float) -> float:
    """The evidence by its formula, up to a constant."""
    values, squares = fit.eigenvalues[0][0] / noise, float(fit.squares[0][0])
    likelihood = -0.5 * float(fit.residuals[0]) / noise - 0.5 * float(fit.targets[0]) * math.log(noise)
    count = len(values)
    log_det = float((values + precision).log().sum())
    return likelihood - 0.5 * precision * squares + 0.5 * count * math.log(precision) - 0.5 * log_det


@pytest.mark.parametrize("noise", [False, True])
def test_the_chosen_precision_and_noise_are_the_top_of_the_curve(noise: bool) -> None:
    values = inputs(1, 20).exp() * 5
    residuals, targets = torch.tensor([80.0]).double(), torch.tensor([60.0]).double()
    fit = Fit([values], [torch.tensor([7.0]).double()], residuals, targets)
    found = largest_evidence(fit, by_layer=False, noise=noise)
    precision, variance = float(found.precision), float(found.noise)
    assert noise or variance == 1.0
    top = brute_force(fit, precision, variance)
    for step in (1e-3, 0.1, 2.0):
        for sign in (-1, 1):
            assert brute_force(fit, precision * math.exp(sign * step), variance) < top
            if noise:
                assert brute_force(fit, precision, variance * math.exp(sign * step)) < top


def test_each_layer_has_the_precision_of_its_own_weights() -> None:
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    with torch.no_grad():
        net[2].weight *= 20
    x = inputs(50, 2)
    y = net(x).detach() + 0.1 * inputs(50, 1, seed=1)
    model = credo.Model(net, likelihoods.LearnedGaussian(), priors.Normal())
    one, each = (credo.fit(model, (x, y), credo.Laplace(by_layer=by)) for by in (False, True))
    assert float(one.precision["0.weight"]) == float(one.precision["2.weight"])
    assert float(each.precision["2.weight"]) < float(one.precision["2.weight"]) < float(each.precision["0.weight"])
    assert each.log_evidence.value > one.log_evidence.value
    assert one.model.prior.scale == pytest.approx(float(one.precision["0.weight"]) ** -0.5, rel=1e-6)
    assert each.model.prior == model.prior


def test_noise_by_evidence_knows_how_many_weights_were_fitted() -> None:
    """Least squares with 12 of 30 weights: residuals / (N - gamma), not residuals / N."""
    design = inputs(30, 12)
    y = design @ inputs(12, 1, seed=4) + 0.5 * inputs(30, 1, seed=5)
    net = nn.Linear(12, 1, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(torch.linalg.lstsq(design, y).solution.mT)
    model = credo.Model(net, likelihoods.LearnedGaussian(), priors.Normal(10.0))
    posterior = credo.fit(model, (design, y), credo.Laplace())
    residuals = float((y - net(design).detach()).square().sum())
    found = float(posterior.mean.params["likelihood.log_scale"].exp() ** 2)
    assert found == pytest.approx(residuals / (30 - float(posterior.effective)), rel=1e-6)
    assert float(posterior.effective) > 11
    kept = credo.fit(model, (design, y), credo.Laplace(precision="model"))
    assert float(kept.mean.params["likelihood.log_scale"].exp() ** 2) == pytest.approx(residuals / 30, rel=1e-6)


def test_evidence_prefers_the_network_that_made_the_data() -> None:
    """A line, a wave of one unit too few, and one that can follow."""
    x = torch.linspace(-2, 2, 60).double()[:, None]
    y = (2 * x).sin() + 0.1 * inputs(60, 1)
    method = credo.Laplace(after=credo.MAP(epochs=300, learning_rate=0.03, batch_size=None), batch_size=None)
    found = {}
    for hidden in ((), (10,)):
        net = nets.MLP(1, 1, hidden, activation="tanh").double()
        found[hidden] = credo.fit(net, (x, y), method).log_evidence.value
    assert found[(10,)] > found[()] + 20


def test_a_tempered_posterior_is_wider_and_has_no_evidence() -> None:
    x, y, exact, net = line()
    model = credo.Model(net, likelihoods.Gaussian(NOISE), priors.Normal(PRIOR))
    posterior = credo.fit(model, (x, y), credo.Laplace(precision="model"), temperature=4.0)
    torch.testing.assert_close(posterior.covariance(), 4.0 * exact.posterior.covariance)
    torch.testing.assert_close(posterior.predict(x).epistemic, 4.0 * exact.predict(with_intercept(x)).epistemic)
    with pytest.raises(ValueError, match="tempered"):
        _ = posterior.log_evidence


@pytest.mark.parametrize("structure", ["dense", "kronecker", "diagonal"])
def test_another_precision_is_another_fit(structure: str) -> None:
    x, y, _, net = line()
    wide, narrow = (
        credo.fit(
            credo.Model(net, likelihoods.Gaussian(NOISE), priors.Normal(scale)),
            (x, y),
            credo.Laplace(structure=structure, precision="model"),
        )
        for scale in (PRIOR, PRIOR / 10)
    )
    changed = wide.with_precision(100.0)
    torch.testing.assert_close(changed.covariance(), narrow.covariance())
    torch.testing.assert_close(changed.effective, narrow.effective)


def test_a_precision_by_held_out_targets() -> None:
    """Targets of the same law prefer the precision of the exact posterior to one that is far off."""
    x, y, _, net = line(6)
    model = credo.Model(net, likelihoods.Gaussian(NOISE), priors.Normal(PRIOR))
    posterior = credo.fit(model, (x, y), credo.Laplace(precision="model"))
    held_out = inputs(200, 2, seed=7)
    y_held_out = held_out @ torch.tensor([[1.5], [-0.7]]).double() + 0.3 + NOISE * inputs(200, 1, seed=8)
    chosen = posterior.choose_precision(held_out, y_held_out)

    def score(of: credo.Posterior) -> float:
        return float(of.predict(held_out).log_prob(y_held_out).mean())

    assert score(chosen) >= score(posterior) - 1e-9
    for factor in (0.5, 2.0):
        assert score(chosen) >= score(chosen.with_precision(factor)) - 1e-5  # the search ends within 5 %


@pytest.mark.parametrize("heads", [False, True])
def test_correlated_noise_of_a_trained_network_is_that_of_its_residuals(heads: bool) -> None:
    """The average product of residuals, with weights and missing targets; the first values, all ones, are rejected."""
    x = inputs(40, 2)
    noise = inputs(40, 3, seed=1) @ torch.tensor([[0.2, 0.1, 0.0], [0.0, 0.1, 0.3], [0.0, 0.0, 0.05]]).double()
    net, weights = nn.Linear(2, 3).double(), torch.arange(40).double() % 3
    y = net(x).detach() + noise
    prior, method, rows = priors.Normal(), credo.Laplace(batch_size=9), slice(0, None)
    if heads:
        y[:5], rows = math.nan, slice(5, None)
        given = likelihoods.Joint(a=likelihoods.MultivariateGaussian())
        model = credo.Model(net, given, prior, outputs=lambda out: {"a": out})
        posterior = credo.fit(model, (x, {"a": y}), method, weights=weights)
    else:
        posterior = credo.fit(
            credo.Model(net, likelihoods.MultivariateGaussian(), prior), (x, y), method, weights=weights
        )
    prefix = "likelihood.a." if heads else "likelihood."
    params = {n.removeprefix(prefix): t[0] for n, t in posterior.mean.params.items() if n.startswith(prefix)}
    found = likelihoods.MultivariateGaussian().covariance(params)
    each = noise[rows] * weights[rows].unsqueeze(1)
    torch.testing.assert_close(found, each.mT @ noise[rows] / weights[rows].sum(), rtol=1e-6, atol=1e-9)
    assert not torch.allclose(found, torch.eye(3).double(), atol=0.5)
    assert any("is that of the residuals" in note for note in posterior.notes)


def test_correlated_noise_of_a_head_by_the_weights_of_that_head() -> None:
    """As by repeated rows that have targets of one head alone."""
    x, y = inputs(20, 2), inputs(20, 2, seed=1)
    net, kind = nn.Linear(2, 4).double(), torch.arange(20) % 2
    given = likelihoods.Joint(a=likelihoods.MultivariateGaussian(), b=likelihoods.Categorical())
    model = credo.Model(net, given, priors.Normal(), outputs=lambda out: {"a": out[:, :2], "b": out[:, 2:]})
    weights = {"a": torch.arange(20).double() % 3, "b": torch.ones(20).double()}
    rows = torch.arange(20).repeat_interleave(weights["a"].long())
    targets = {
        "a": torch.cat([y[rows], torch.full((20, 2), math.nan).double()]),
        "b": torch.cat([torch.full((len(rows),), -100), kind]),
    }
    method = credo.Laplace(structure="dense", precision="model")
    weighted = credo.fit(model, (x, {"a": y, "b": kind}), method, weights=weights)
    repeated = credo.fit(model, (torch.cat([x[rows], x]), targets), method)
    for name in ("likelihood.a.log_scale", "likelihood.a.correlation"):
        torch.testing.assert_close(weighted.mean.params[name], repeated.mean.params[name])
    torch.testing.assert_close(weighted.evidence, repeated.evidence)
    plain = credo.fit(model, (x, {"a": y, "b": kind}), method)
    assert not torch.allclose(
        plain.mean.params["likelihood.a.log_scale"], weighted.mean.params["likelihood.a.log_scale"]
    )


class Doubling(likelihoods.Gaussian):
    """Noise with a parameter that nothing here knows."""

    def parameters(self, outputs: int) -> dict[str, Tensor]:
        return {"factor": torch.ones(outputs)}


def test_parameters_that_no_residuals_say_are_named() -> None:
    net, x = nn.Linear(2, 1).double(), inputs(10, 2)
    notes = credo.fit(credo.Model(net, Doubling(0.3), priors.Normal()), (x, x[:, :1]), credo.Laplace()).notes
    assert any("factor of the likelihood stay as they are at the start" in note for note in notes)
    known = credo.fit(credo.Model(net, likelihoods.LearnedGaussian(), priors.Normal()), (x, x[:, :1]), credo.Laplace())
    assert not any("stay as they are" in note for note in known.notes)
