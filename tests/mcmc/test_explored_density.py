"""What the samplers explore is `target.log_joint`, whoever wrote likelihood, prior and net.

A gradient written by hand may be taken only for exactly the classes that it was written for: every likelihood here is
tried with every prior and every net, subclasses of credo classes that change the formula among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, priors
from credo.core.trees import Layout, Params, Variables
from credo.likelihoods.base import Likelihood
from credo.methods.mcmc.log_density import LogDensity
from credo.model import Batch, Target

X = credo.Stream(0, ("x",)).normal(9, 3, dtype=torch.float64)
REAL = credo.Stream(0, ("y",)).normal(9, 2, dtype=torch.float64)
CLASSES = torch.arange(9) % 2


class RobustGaussian(likelihoods.Gaussian):
    """A user's: errors count less than squared."""

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return -((y - outputs) / self.scale).abs().log1p().sum(-1)


class HalfGaussian(likelihoods.LearnedGaussian):
    """A user's: every example counts one half."""

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return 0.5 * super().log_prob(outputs, y, params)


class WideGaussian(likelihoods.Gaussian):
    """A user's: the scale is not what the field says."""

    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, float]:
        return outputs, 3.0 * self.scale


class TightPriorGaussian(likelihoods.LearnedGaussian):
    """A user's: another prior of the learned scale."""

    def log_prior(self, params: Params) -> Tensor:
        return -5.0 * params["log_scale"].square().sum(-1)


class SmoothedCategorical(likelihoods.Categorical):
    """A user's: labels are smoothed."""

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return 0.9 * super().log_prob(outputs, y, params) + 0.1 * outputs.log_softmax(-1).mean(-1)


@dataclass(frozen=True)
class OneScale(likelihoods.LearnedGaussian):
    """A user's: one learned number without axes, and no prior on it."""

    def parameters(self, outputs: int) -> Params:
        return {"log_scale": torch.tensor(0.3)}

    def log_prior(self, params: Params) -> float:
        return 0.0

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        scale = params["log_scale"].exp().unsqueeze(-1).unsqueeze(-1)
        return (-0.5 * ((y - outputs) / scale).square() - scale.log()).sum(-1)


def patched() -> likelihoods.Gaussian:
    """One whose instance was changed, past the frozen dataclass."""
    changed = likelihoods.Gaussian(0.3)
    object.__setattr__(changed, "log_prob", lambda outputs, y, params: -(y - outputs).abs().sum(-1))
    return changed


class ShiftedNormal(priors.Normal):
    """A user's: weights around one."""

    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        return super().log_prob({name: w - 1.0 for name, w in params.items()}, layout)


class PeakedNormal(priors.Normal):
    """A user's: another density of every weight, summed by the base class of all elementwise priors."""

    def log_density(self, w: Tensor) -> Tensor:
        return -w.abs()

    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        return priors.base.ElementwisePrior.log_prob(self, params, layout)


class Flat(priors.Prior):
    """A user's: the same everywhere."""

    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        return torch.zeros(len(next(iter(params.values()))), dtype=torch.float64)

    def sample(self, *_: object) -> Params:
        raise AssertionError("nobody draws from it")


class Doubled(nn.Linear):
    """A user's layer."""

    def forward(self, x: Tensor) -> Tensor:
        return 2.0 * super().forward(x)


class Cubed(nn.Tanh):
    """A user's activation."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) ** 3


class Bent(credo.nets.MLP):
    """A user's network."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).tanh()


def tied() -> nn.Module:
    """Two layers with one weight."""
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))
    net[2].weight = net[0].weight
    return net


def patched_net() -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    right = net[1].forward
    net[1].forward = lambda x: 0.5 * right(x)
    return net


def hooked_net() -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    net[1].register_forward_hook(lambda module, inputs, output: output + 1.0)
    return net


LIKELIHOODS: dict[str, tuple[Likelihood, Tensor]] = {
    "gaussian": (likelihoods.Gaussian(0.3), REAL),
    "learned scale": (likelihoods.LearnedGaussian(0.7), REAL),
    "classes": (likelihoods.Categorical(), CLASSES),
    "yes or no": (likelihoods.Bernoulli(), (REAL > 0).double()),
    "counts": (likelihoods.Poisson(), (REAL * 2).round().abs()),
    "noise of x": (likelihoods.HeteroscedasticGaussian(), REAL[:, :1]),
    "robust": (RobustGaussian(0.3), REAL),
    "half": (HalfGaussian(0.7), REAL),
    "wide": (WideGaussian(0.3), REAL),
    "tight prior": (TightPriorGaussian(0.7), REAL),
    "smoothed": (SmoothedCategorical(), CLASSES),
    "one scale": (OneScale(), REAL),
    "patched": (patched(), REAL),
}
PRIORS: dict[str, priors.Prior] = {
    "normal": priors.Normal(1.5),
    "by fan in": priors.Normal(0.8, fan_in=True),
    "student": priors.StudentT(),
    "laplace": priors.Laplace(),
    "mixture": priors.ScaleMixture(),
    "shifted": ShiftedNormal(),
    "peaked": PeakedNormal(),
    "flat": Flat(),
}
NETS: dict[str, nn.Module] = {
    "linear": nn.Linear(3, 2),
    "dense": nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)),
    "mlp": credo.nets.MLP(3, 2, (4,), activation="tanh"),
    "tied": tied(),
    "own layer": nn.Sequential(Doubled(3, 4), nn.Tanh(), nn.Linear(4, 2)),
    "own activation": nn.Sequential(nn.Linear(3, 4), Cubed(), nn.Linear(4, 2)),
    "own network": Bent(3, 2, (4,)),
    "patched": patched_net(),
    "hooked": hooked_net(),
    "layer norm": nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)),
}


def explored(net: nn.Module, likelihood: Likelihood, prior: priors.Prior, y: Tensor, temperature: float) -> LogDensity:
    """Of nine examples that stand for twenty, so that the factor N / B shows."""
    model = credo.Model(net.double(), likelihood, prior)
    variables = model.complete(model.network.initial(3, credo.Stream(1)), 2)
    moved = {
        name: t + 0.1 * credo.Stream(2, (name,)).normal(*t.shape, dtype=t.dtype) for name, t in variables.params.items()
    }
    return LogDensity(Target(model, 20, temperature), Batch(X, y), Variables(moved, variables.buffers))


@pytest.mark.parametrize("names", list(product(LIKELIHOODS, PRIORS, NETS)), ids="-".join)
def test_value_and_gradient_are_those_of_the_log_joint(names: tuple[str, str, str]) -> None:
    (likelihood, y), prior, net = LIKELIHOODS[names[0]], PRIORS[names[1]], NETS[names[2]]
    density = explored(net, likelihood, prior, y, temperature=0.7)
    flat = density.flat(density.variables.params)
    value, gradient = density.value_and_gradient(flat)
    leaf = flat.clone().requires_grad_()
    expected = density.target.log_joint(density.named(leaf), density.batch)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), leaf)[0], rtol=1e-8, atol=1e-9)
