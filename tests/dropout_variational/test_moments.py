"""Noise on outputs and on inputs against the moments that weight space gives them, exactly.

A layer is linear in its weights, h = J w + c, so its outputs have mean J theta + c and covariance J C J^T, where C is
diag(alpha theta^2), or, where an input unit has one noise, that of theta_oi s_i. J is taken by differentiation.

Every comparison allows 5 Monte Carlo standard errors: of some 600 comparisons of near-normal averages a correct one
fails somewhere with a probability near 3e-4 over the choice of seeds; the seeds are fixed.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

import credo
from credo import likelihoods
from credo.core.trees import Variables
from credo.methods.dropout.noise import Additive, ByInput, Correlated, Multiplicative, Noise, WeightNoise
from credo.methods.dropout.noisy import noisy_pass
from credo.methods.dropout.sharing import PerLayer, PerUnit, PerWeight
from credo.model import Batch, Target

DRAWS, ERRORS = 4000, 5.0
LAYERS = {
    "linear": (lambda: nn.Linear(5, 3), (5,)),
    "conv1d": (lambda: nn.Conv1d(3, 2, 3, stride=2), (3, 7)),
    "conv2d": (lambda: nn.Conv2d(2, 3, 2, padding=1), (2, 3, 2)),
    "conv3d": (lambda: nn.Conv3d(2, 2, 2), (2, 3, 2, 3)),
}
NOISES: dict[str, Noise] = {
    "layer": ByInput(PerLayer()),
    "unit": ByInput(PerUnit()),
    "unit, on the weights": Multiplicative(PerUnit()),
    "weight": Multiplicative(PerWeight()),
    "correlated": Correlated(PerUnit()),
    "additive": Additive(),
}
every_layer = pytest.mark.parametrize(("make", "shape"), LAYERS.values(), ids=LAYERS.keys())
every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())


class Scene:
    """A layer with noise on its weights, one example, and the exact moments of its outputs."""

    def __init__(self, make, shape: tuple[int, ...], noise: Noise) -> None:
        with credo.Stream(1).borrowed_global():
            net = nn.Sequential(make(), nn.Flatten()).double()
        self.noise, self.x = noise, credo.Stream(2).normal(1, *shape, dtype=torch.float64)
        self.target = Target(credo.Model(net, likelihoods.Gaussian(1.0)), size=10)
        self.mean = self.target.model.network.given()
        weight = self.mean.params["0.weight"]
        level = noise.first(weight, 0.3)
        self.level = level - 0.5 * credo.Stream(3).normal(*level.shape, dtype=torch.float64).abs()
        params = {name: p[0] for name, p in self.mean.params.items()}
        self.centre = functional_call(net, params, (self.x,))[0].detach()

        def outputs(weight: Tensor) -> Tensor:
            return functional_call(net, {**params, "0.weight": weight}, (self.x,))[0]

        slope = jacrev(outputs)(params["0.weight"])
        if isinstance(noise, Correlated):
            by_unit = (slope * params["0.weight"]).sum(1).flatten(1)
            by_unit = by_unit.reshape(len(by_unit), weight.shape[2], -1).sum(2)  # (E, inputs)
            spread = noise.spread(weight, self.level).values.flatten().expand(by_unit.shape[1])
            self.covariance = by_unit * spread.square() @ by_unit.T
        else:
            assert isinstance(noise, WeightNoise)
            flat = slope.flatten(1)
            self.covariance = flat * noise.variance(weight, self.level).flatten() @ flat.T

    def trained(self, examples: int = DRAWS, spread: Tensor | None = None) -> Tensor:
        """The outputs of one example that comes many times in a batch, (B, E)."""
        given = self.noise.spread(self.mean.params["0.weight"], self.level).values if spread is None else spread
        x = self.x.expand(examples, *self.x.shape[1:])
        batch = Batch(x, x.new_zeros(examples, len(self.centre)))
        level, leaf = {"0.weight": self.level}, {"0.weight": given}
        return noisy_pass(self.target, self.noise, self.mean, level, leaf, batch, credo.Stream(7)).outputs[0].detach()

    def drawn(self, seed: int = 0) -> Tensor:
        """The same by functions drawn from the posterior, (S, E)."""
        posterior = self.noise.posterior(self.target.model, self.mean, {"0.weight": self.level})
        return posterior.draw(DRAWS, seed)(self.x)[:, 0]


def apart(sample: Tensor, centre: Tensor, covariance: Tensor, *, diagonal: bool) -> float:
    """The largest distance of the sample's moments from the exact ones, in standard errors."""
    variance = covariance.diagonal()
    of_mean = (sample.mean(0) - centre).abs() / (variance / len(sample)).sqrt()
    deviations = sample - centre
    found = deviations.T @ deviations / len(sample)
    error = ((variance[:, None] * variance + covariance.square()) / len(sample)).sqrt()
    of_covariance = (found - covariance).abs() / error
    return max(float(of_mean.max()), float((of_covariance.diagonal() if diagonal else of_covariance).max()))


@every_noise
@every_layer
def test_training_has_the_moments_of_weight_space(make, shape: tuple[int, ...], noise: Noise) -> None:
    scene = Scene(make, shape, noise)
    # where positions share weights, noise on outputs leaves their correlation out
    partly = len(shape) > 1 and not isinstance(noise, Correlated)
    assert apart(scene.trained(), scene.centre, scene.covariance, diagonal=partly) < ERRORS


@every_noise
@every_layer
def test_drawn_functions_have_them_all(make, shape: tuple[int, ...], noise: Noise) -> None:
    scene = Scene(make, shape, noise)
    assert apart(scene.drawn(), scene.centre, scene.covariance, diagonal=False) < ERRORS


@pytest.mark.parametrize("noise", [ByInput(PerUnit()), Multiplicative(PerUnit())], ids=["by input", "by weight"])
def test_groups_of_a_convolution_share_the_alphas_of_its_weight(noise: Noise) -> None:
    scene = Scene(lambda: nn.Conv1d(4, 6, 3, groups=2), (4, 5), noise)
    assert apart(scene.trained(), scene.centre, scene.covariance, diagonal=True) < ERRORS


def test_twins_are_found_out() -> None:
    linear = LAYERS["linear"]
    scene = Scene(*linear, Multiplicative(PerLayer()))
    weight = scene.mean.params["0.weight"]
    of_theta = scene.level.exp() * weight.abs()
    assert apart(scene.trained(spread=of_theta), scene.centre, scene.covariance, diagonal=True) > 2 * ERRORS
    of_scale = scene.level.exp().sqrt() * weight.square()
    assert apart(scene.trained(spread=of_scale), scene.centre, scene.covariance, diagonal=True) > 2 * ERRORS
    shared = scene.drawn()[:1].expand(DRAWS, -1)  # one noise for all draws
    assert apart(shared, scene.centre, scene.covariance, diagonal=True) > 2 * ERRORS


@every_noise
@every_layer
def test_without_noise_it_is_the_deterministic_network(make, shape: tuple[int, ...], noise: Noise) -> None:
    scene = Scene(make, shape, noise)
    scene.level = torch.full_like(scene.level, -torch.inf)
    assert torch.equal(scene.trained(3), scene.centre.expand(3, -1)) or torch.allclose(
        scene.trained(3), scene.centre.expand(3, -1), rtol=1e-12, atol=1e-14
    )  # one product for three examples may round in another order
    torch.testing.assert_close(scene.drawn(), scene.centre.expand(DRAWS, -1), rtol=1e-12, atol=1e-14)


@every_noise
def test_examples_and_members_have_noise_of_their_own(noise: Noise) -> None:
    scene = Scene(*LAYERS["linear"], noise)
    sample = scene.trained(50)
    assert len({tuple(row) for row in sample.tolist()}) == 50
    two = Variables({name: p.expand(2, *p.shape[1:]) for name, p in scene.mean.params.items()})
    spread = noise.spread(scene.mean.params["0.weight"], scene.level).values
    batch = Batch(scene.x, scene.x.new_zeros(1, 3))
    for plan in credo.Plan:
        passage = noisy_pass(
            scene.target.with_plan(plan),
            noise,
            two,
            {"0.weight": scene.level.expand(2, *scene.level.shape[1:])},
            {"0.weight": spread.expand(2, *spread.shape[1:])},
            batch,
            credo.Stream(7),
        )
        assert not torch.equal(passage.outputs[0], passage.outputs[1])


class Hidden(nn.Module):
    """The same network, which nobody can see to be a plain stack of layers."""

    def __init__(self, stack: nn.Module) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, x: Tensor) -> Tensor:
        return self.stack(x)


METHODS = {
    "layer": credo.VariationalDropout(),
    "unit": credo.VariationalDropout(sharing="unit"),
    "weight": credo.VariationalDropout(sharing="weight"),
    "correlated": credo.VariationalDropout(sharing="unit", correlated=True),
    "one layer": credo.VariationalDropout(noisy="*2.weight"),
    "sparse": credo.SparseVariationalDropout(),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_a_walk_through_a_dense_stack_takes_the_step_of_its_graph(method: credo.Method) -> None:
    stack = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    x, y = (credo.Stream(i).normal(6, 4, dtype=torch.float64) for i in range(2))
    stack[0].bias.requires_grad_(False)
    found = []
    for net in (stack, Hidden(stack)):
        model = credo.Model(net, likelihoods.LearnedGaussian())
        posterior = credo.fit(model, (x, y[:, :2]), replace(method, epochs=3, batch_size=4), start=net, seed=5)
        walks = model.network.dense(model.network.given(), x) is not None
        assert walks is (net is stack)
        found.append([t.flatten() for t in posterior.point().params.values()])
        found.append([posterior.draw(2)(x)])
    for i in (0, 1):
        for ours, graph in zip(found[i], found[i + 2], strict=True):
            torch.testing.assert_close(ours, graph)
