"""Curvature of every layer kind, and predictions by it, against a loop over single examples, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, nets
from credo.core.matrices import Kronecker
from credo.methods.laplace import KroneckerCurvature
from credo.model import likelihood_params
from credo.posteriors import LaplaceGaussian
from laplace_nets import CASES, Case, inputs, loop_curvature, model_of, order_of, places, rows

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
SCALE = 0.7
"""Of the prior."""
MODEL = {"precision": "model"}


def curvature_of(posterior: LaplaceGaussian) -> Tensor:
    """H, (P, P), by the covariance."""
    whole = torch.linalg.inv(posterior.covariance())
    return whole - torch.eye(len(whole), dtype=torch.float64) / SCALE**2


def in_order(posterior: LaplaceGaussian, matrix: Tensor) -> Tensor:
    """A matrix of parameters one behind the other, in the order of the blocks."""
    order = places(posterior)
    return matrix[order][:, order]


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-7)  # an inverse of an inverse


def of_classes(case: Case, **options: object) -> tuple[LaplaceGaussian, Tensor]:
    net, x = case.make()
    model, y = model_of(net, likelihoods.Categorical(), SCALE), torch.arange(len(x)) % 2
    posterior = credo.fit(model, (x, y), credo.Laplace(**{**MODEL, **options}))
    truth = loop_curvature(posterior.model, posterior.mean, x, order_of(posterior))
    return posterior, in_order(posterior, truth)


@every_case
def test_dense_is_the_loop(case: Case) -> None:
    posterior, truth = of_classes(case, structure="dense", batch_size=2)
    close(curvature_of(posterior), truth)
    assert not torch.allclose(curvature_of(posterior), truth.diagonal().diag(), rtol=1e-3)


@every_case
def test_diagonal_is_that_of_the_loop(case: Case) -> None:
    posterior, truth = of_classes(case, structure="diagonal", batch_size=3)
    close(curvature_of(posterior), truth.diagonal().diag())


@every_case
@pytest.mark.parametrize("structure", ["dense", "diagonal", "kronecker"])
def test_the_linearized_predictive_is_the_dense_formula(case: Case, structure: str) -> None:
    """J Sigma J^T with Sigma written out: no slices, no basis, no shortcuts."""
    net, x = case.make()
    model, y = model_of(net, likelihoods.Gaussian(0.3)), x.double().flatten(1)[:, :2].clone()
    posterior = credo.fit(model, (x, y), credo.Laplace(structure=structure, **MODEL))
    jacobian = rows(posterior.model, posterior.mean, x, order_of(posterior))[:, :, places(posterior)]
    truth = jacobian @ posterior.covariance() @ jacobian.mT
    close(posterior.output_normal(x).covariance[0], truth)
    close(posterior.output_normal(x, independent=True).covariance[0], truth.diagonal(dim1=1, dim2=2))
    prediction = posterior.predict(x)
    close(prediction.epistemic, truth.diagonal(dim1=1, dim2=2))
    close(prediction.mean, model.network.module(x))


@every_case
def test_drawn_functions_have_the_moments_of_the_linear_network(case: Case) -> None:
    """Within five standard errors (a family-wise error below 1e-4); the network itself at drawn weights is rejected."""
    net, x = case.make()
    model, y = model_of(net, likelihoods.Gaussian(0.3)), x.double().flatten(1)[:, :2].clone()
    posterior = credo.fit(model, (x, y), credo.Laplace(structure="dense", **MODEL))
    covariance = posterior.output_normal(x).covariance[0]
    scale = covariance.diagonal(dim1=1, dim2=2).sqrt()
    outputs = posterior.draw(400)(x)
    z = (outputs - model.network.module(x)) / scale
    assert bool((z.mean(0).abs() < 5.0 / 20.0).all())
    assert bool(((z.square().mean(0) - 1.0).abs() < 5.0 * 2**0.5 / 20.0).all())
    assert bool(((z[..., 0] * z[..., 1]).mean(0) - covariance[:, 0, 1] / scale.prod(1)).abs().lt(5 * 2**0.5 / 20).all())


def test_one_example_makes_a_product_exact() -> None:
    """For one output and one example the curvature of each layer is a product of outer products."""
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    x = inputs(1, 3)
    model = model_of(net, likelihoods.Gaussian(0.5), SCALE)
    posterior = credo.fit(model, (x, x[:, :1]), credo.Laplace(**MODEL))
    assert all(isinstance(block.precision, Kronecker) for block in posterior.blocks)
    truth = in_order(posterior, loop_curvature(posterior.model, posterior.mean, x, order_of(posterior)))
    blocks = torch.block_diag(truth[:16, :16], truth[16:, 16:])
    close(curvature_of(posterior), blocks)
    more = credo.fit(model, (inputs(9, 3), inputs(9, 1)), credo.Laplace(**MODEL))
    truth = loop_curvature(more.model, more.mean, inputs(9, 3), order_of(more))
    assert not torch.allclose(curvature_of(more)[:16, :16], truth[:16, :16], rtol=0.01)


@pytest.mark.parametrize("sharing", ["expand", "reduce"])
def test_shared_weights_by_the_formulas_of_both(sharing: str) -> None:
    """K-FAC-expand and -reduce by their definitions, with weights of examples."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 2)).double()
    x, y, weight = inputs(6, 4, 2), torch.arange(6) % 2, torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 1.0]).double()
    model = model_of(net, likelihoods.Categorical(), SCALE)
    structure = KroneckerCurvature(sharing)
    method = credo.Laplace(structure=structure, subset="0.*", batch_size=4, **MODEL)
    posterior = credo.fit(model, (x, y), method, weights=weight)
    assert any(f"sharing='{sharing}'" in note for note in posterior.notes)
    h = net[0](x).detach().requires_grad_()
    outputs = net[1:](h)
    fisher = likelihoods.Categorical().fisher(outputs, {})
    roots = torch.linalg.cholesky(fisher + 1e-14 * torch.eye(2).double()) * weight.sqrt().view(-1, 1, 1)
    g = torch.stack([torch.autograd.grad(outputs, h, roots[..., r].detach(), retain_graph=True)[0] for r in range(2)])
    a = torch.cat([x, torch.ones(6, 4, 1).double()], dim=-1)
    if sharing == "reduce":
        g, a = g.sum(2, keepdim=True), a.mean(1, keepdim=True)
    left = torch.einsum("rbto,rbtp->op", g, g)
    right = torch.einsum("b,bti,btj->ij", weight, a, a) / (weight.sum() * a.shape[1])
    close(curvature_of(posterior), torch.kron(left, right))


def test_the_empirical_fisher_is_that_of_single_gradients() -> None:
    net, x = CASES["conv2d"].make()
    y, weight = torch.arange(len(x)) % 2, torch.tensor([1.0, 2.0, 3.0, 0.5]).double()
    model = model_of(net, likelihoods.Categorical(), SCALE)
    method = credo.Laplace(structure="dense", curvature="fisher", batch_size=3, **MODEL)
    posterior = credo.fit(model, (x, y), method, weights=weight)
    jacobian = rows(posterior.model, posterior.mean, x, order_of(posterior))
    error = torch.nn.functional.one_hot(y, 2) - net(x).softmax(-1)
    g = (jacobian * error.unsqueeze(-1)).sum(1)
    close(curvature_of(posterior), in_order(posterior, (g * weight.unsqueeze(1)).mT @ g))


@pytest.mark.parametrize("structure", ["dense", "diagonal"])
def test_the_hessian_is_torchs(structure: str) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    x = inputs(12, 2)
    model = credo.Model(net, likelihoods.Poisson(), credo.priors.Normal(0.1))  # narrow: all eigenvalues are positive
    y = (x[:, :1].abs() * 3).round()
    posterior = credo.fit(model, (x, y), credo.Laplace(structure=structure, curvature="hessian", batch_size=5, **MODEL))
    shapes = {name: p.shape for name, p in net.named_parameters()}
    flat = torch.cat([p.detach().flatten() for p in net.parameters()])

    def loss(w: Tensor) -> Tensor:
        parts = torch.split(w, [s.numel() for s in shapes.values()])
        params = {n: part.view(s) for (n, s), part in zip(shapes.items(), parts, strict=True)}
        return -likelihoods.Poisson().log_prob(torch.func.functional_call(net, params, (x,)), y, {}).sum()

    truth = torch.autograd.functional.hessian(loss, flat)
    found = torch.linalg.inv(posterior.covariance()) - torch.eye(len(flat)).double() / 0.1**2
    torch.testing.assert_close(found, truth if structure == "dense" else truth.diagonal().diag(), rtol=1e-6, atol=1e-6)


LIKELIHOODS = {
    "fixed noise": (likelihoods.Gaussian(0.5), 2, lambda x: x),
    "learned noise": (likelihoods.LearnedGaussian(), 2, lambda x: x),
    "one learned noise": (likelihoods.SharedGaussian(), 2, lambda x: x),
    "noise that depends on x": (likelihoods.HeteroscedasticGaussian(), 2, lambda x: x[:, :1]),
    "yes or no": (likelihoods.Bernoulli(), 2, lambda x: (x > 0).double()),
    "classes": (likelihoods.Categorical(), 2, lambda x: (x[:, 0] > 0).long()),
    "counts": (likelihoods.Poisson(), 2, lambda x: (x.abs() * 3).round()),
}


@pytest.mark.parametrize(("likelihood", "outputs", "target"), LIKELIHOODS.values(), ids=LIKELIHOODS.keys())
def test_every_likelihood_has_its_curvature(likelihood: likelihoods.Likelihood, outputs: int, target) -> None:
    x = inputs(10, 2)
    model = model_of(nets.MLP(2, outputs, (3,)).double(), likelihood, SCALE)
    posterior = credo.fit(model, (x, target(x)), credo.Laplace(structure="dense", batch_size=4, **MODEL))
    truth = loop_curvature(posterior.model, posterior.mean, x, order_of(posterior))
    close(curvature_of(posterior), in_order(posterior, truth))
    prediction = posterior.predict(x)
    assert bool(prediction.log_prob(target(x)).isfinite().all())
    torch.testing.assert_close(prediction.variance, prediction.epistemic + prediction.aleatoric)


def test_learned_noise_is_estimated_first() -> None:
    """The root of the mean squared residuals of each target, by weight."""
    x, weight = inputs(40, 2), inputs(40, seed=3).exp()
    net = nn.Linear(2, 2).double()
    y = x * torch.tensor([2.0, 30.0])
    posterior = credo.fit(
        model_of(net, likelihoods.LearnedGaussian()), (x, y), credo.Laplace(batch_size=7, **MODEL), weights=weight
    )
    squares = (y - net(x)).square() * weight.unsqueeze(1)
    truth = (squares.sum(0) / weight.sum()).sqrt()
    close(likelihood_params(posterior.mean.params)["log_scale"][0].exp(), truth.detach())


@pytest.mark.parametrize("structure", ["dense", "diagonal", "kronecker"])
def test_a_weight_of_two_is_a_repeated_row(structure: str) -> None:
    net, x = CASES["linear"].make()
    model, y = model_of(net, likelihoods.Categorical()), torch.arange(5) % 2
    weight = torch.tensor([2.0, 1.0, 1.0, 2.0, 1.0])
    again = torch.tensor([0, 0, 1, 2, 3, 3, 4])
    method = credo.Laplace(structure=structure)
    weighted = credo.fit(model, (x, y), method, weights=weight)
    repeated = credo.fit(model, (x[again], y[again]), method)
    close(weighted.covariance(), repeated.covariance())
    close(weighted.evidence, repeated.evidence)
    plain = credo.fit(model, (x, y), method)
    assert not torch.allclose(plain.covariance(), repeated.covariance(), rtol=1e-3)


class ChangedAfter(nn.Module):
    """A layer whose output is changed in place before it is returned."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.layer, self.way = nn.Linear(3, 2), way

    def forward(self, x: Tensor) -> Tensor:
        h = self.layer(x)
        if self.way == "a column":
            h[:, 0].mul_(3.0)
            return h
        return h.mul_(2.0) if self.way == "all" else torch.tanh_(h)


@pytest.mark.parametrize("way", ["all", "a column", "a function"])
@pytest.mark.parametrize("structure", ["dense", "diagonal"])
def test_outputs_that_are_changed_in_place_have_the_curvature_of_the_loop(way: str, structure: str) -> None:
    torch.manual_seed(0)
    net = ChangedAfter(way).double()
    posterior, truth = of_classes(Case(lambda: net, lambda: inputs(7, 3)), structure=structure)
    close(curvature_of(posterior), truth if structure == "dense" else truth.diagonal().diag())


@pytest.mark.parametrize("way", ["all", "a column", "a function"])
def test_predictions_of_outputs_that_are_changed_in_place_have_their_jacobian(way: str) -> None:
    torch.manual_seed(0)
    net, x = ChangedAfter(way).double(), torch.randn(7, 3).double()
    model = model_of(net, likelihoods.Gaussian(scale=0.3), SCALE)
    posterior = credo.fit(model, (x, x[:, :2]), credo.Laplace(structure="dense", **MODEL))
    weights = torch.cat([p.detach().flatten() for p in net.parameters()])

    def outputs(flat: Tensor) -> Tensor:
        tree = {"layer.weight": flat[:6].view(2, 3), "layer.bias": flat[6:]}
        return torch.func.functional_call(net, tree, (x,))

    jacobian = torch.func.jacrev(outputs)(weights)  # (B, E, P)
    each = jacobian.flatten(0, 1)
    covariance = torch.linalg.inv(each.mT @ each / 0.3**2 + torch.eye(8, dtype=torch.float64) / SCALE**2)
    close(posterior.predict(x).epistemic, torch.einsum("bep,pq,beq->be", jacobian, covariance, jacobian))
