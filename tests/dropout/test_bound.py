"""The evidence bound of dropout: its parts by numerical integration, and where concrete dropout must land."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats
from torch import Tensor, nn

import credo
from credo import likelihoods, priors
from credo.core.trees import Layout
from credo.methods.dropout import concrete
from credo.methods.dropout.prior import expected_log_prior, keep_of_weights
from credo.nets.layer import Layer

PRIORS = [
    priors.Normal(0.7),
    priors.Normal(2.0, fan_in=True),
    priors.Laplace(),
    priors.StudentT(),
    priors.ScaleMixture(),
]


def target_with(prior: priors.Prior, size: int = 50) -> credo.Target:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    return credo.Target(credo.Model(net, likelihoods.Gaussian(1.0), prior), size)


def by_masks(target: credo.Target, params: credo.Params, keep: float) -> Tensor:
    """E[log p(w * mask)] over masks of the second layer's weights, weight by weight."""

    def density(name: str, entry: float) -> float:
        one = torch.full((1, *[1] * len(target.layout[name].shape)), entry, dtype=torch.float64)
        return float(target.model.prior.log_prob({name: one}, target.layout))

    total = 0.0
    for name, w in params.items():
        for entry in w.flatten().tolist():
            dropped = name == "2.weight"
            total += (
                keep * density(name, entry / keep) + (1 - keep) * density(name, 0.0)
                if dropped
                else density(name, entry)
            )
    return torch.tensor([total], dtype=torch.float64)


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_the_expected_prior_is_the_average_over_masks(prior: priors.Prior) -> None:
    target, keep = target_with(prior), 0.7
    params = target.model.network.given().params
    found = expected_log_prior(target, params, {"2.weight": keep})
    torch.testing.assert_close(found, by_masks(target, params, keep))
    learned = expected_log_prior(target, params, {"2.weight": torch.full((1, 1, 4), keep, dtype=torch.float64)})
    torch.testing.assert_close(learned, found)
    if not isinstance(prior, priors.Laplace):  # its |w| is the same at the expectation
        assert float((target.log_prior(params) - found).abs()) > 1e-3


@dataclass(frozen=True)
class Doubled(priors.Normal):
    """A prior of somebody's own, which says another log_prob than the class it comes from."""

    def log_prob(self, params: credo.Params, layout: Layout) -> Tensor:
        return 2.0 * super().log_prob(params, layout)


@pytest.mark.parametrize("keep", [0.7, torch.full((1, 1, 4), 0.7, dtype=torch.float64)], ids=["fixed", "learned"])
def test_a_prior_with_a_log_prob_of_its_own_is_asked_for_it(keep: float | Tensor) -> None:
    """The formulas of the normal, which it inherits, are not its own: it is taken at the weights."""
    target = target_with(Doubled(0.7))
    params = target.model.network.given().params
    found = expected_log_prior(target, params, {"2.weight": keep})
    torch.testing.assert_close(found, target.log_prior(params))
    assert not torch.allclose(found, expected_log_prior(target_with(priors.Normal(0.7)), params, {"2.weight": keep}))


def test_the_kl_of_dropout_is_the_one_of_narrow_normals() -> None:
    """q as a mixture of two normals of width 1e-3: its KL from the prior, integrated, differs by a constant alone."""
    scale, width = 0.8, 1e-3

    def integrated(m: float, keep: float) -> float:
        def q(w: float) -> float:
            return keep * stats.norm.pdf(w, m, width) + (1 - keep) * stats.norm.pdf(w, 0.0, width)

        def inside(w: float) -> float:
            return q(w) * (math.log(q(w)) - stats.norm.logpdf(w, 0.0, scale))

        return sum(integrate.quad(inside, c - 8 * width, c + 8 * width, limit=200)[0] for c in (0.0, m))

    def ours(m: float, keep: float) -> float:
        logit = torch.logit(torch.tensor([[keep]], dtype=torch.float64))
        entropy = float(concrete.bernoulli_entropy(logit))
        return 0.5 * keep * m**2 / scale**2 - entropy

    first, second, third = ((1.3, 0.4), (-0.6, 0.9), (2.0, 0.7))
    # the width of the normals adds 1e-6 to E[w^2]
    assert integrated(*first) - integrated(*second) == pytest.approx(ours(*first) - ours(*second), abs=1e-5)
    assert integrated(*first) - integrated(*third) == pytest.approx(ours(*first) - ours(*third), abs=1e-5)
    twin = 0.5 * 1.3**2 / scale**2 - 0.5 * 0.6**2 / scale**2
    assert abs(integrated(*first) - integrated(*second) - twin) > 0.1


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_weight_decay_is_the_tutorials(rate: float) -> None:
    """J = ... + keep l^2 / (2 N) |m|^2 with m = w / keep: by the gradient of one step's objective."""
    length_scale, size = 1.7, 50
    target = target_with(priors.Normal(1.0 / length_scale), size)
    network = target.model.network.with_dropout(credo.nets.network.DropoutChange(rate, inserted=True))
    variables = network.given()
    sites = network.trace(variables, torch.zeros(2, 3, dtype=torch.float64)).sites
    keeps = keep_of_weights(sites, [1.0 - site.rate for site in sites])
    assert keeps == {"2.weight": pytest.approx(1 - rate)}
    params = {name: w.requires_grad_() for name, w in variables.params.items()}
    loss = -expected_log_prior(target, params, keeps).sum() / size
    by_w = dict(zip(params, torch.autograd.grad(loss, list(params.values())), strict=True))
    m = params["2.weight"] / (1 - rate)
    decay = (1 - rate) * length_scale**2 / (2 * size)
    torch.testing.assert_close(by_w["2.weight"] * (1 - rate), (2 * decay * m).detach())  # by m: dw = keep dm
    torch.testing.assert_close(by_w["0.weight"], (length_scale**2 / size * params["0.weight"]).detach())


NOISE, PRIOR, N = 2.0, 1.5, 30
SLOPE = 1.6
X = torch.linspace(-1.0, 1.0, N, dtype=torch.float64)[:, None]
Y = SLOPE * X + 0.3 * credo.Stream(0).normal(N, 1, dtype=torch.float64)


def best_keep() -> float:
    """One weight behind one dropped input: the bound in closed form, and its best keep."""
    xx, xy, yy = (float((a * b).sum()) for a, b in ((X, X), (X, Y), (Y, Y)))

    def negative_bound(values: np.ndarray) -> float:
        w, logit = values
        keep = 1.0 / (1.0 + math.exp(-logit))
        misfit = (yy - 2 * w * xy + w**2 * xx / keep) / (2 * NOISE**2)
        entropy = -keep * math.log(keep) - (1 - keep) * math.log1p(-keep)
        return misfit + w**2 / (2 * PRIOR**2 * keep) - entropy

    found = optimize.minimize(negative_bound, np.array([1.0, 1.0]), method="Nelder-Mead", options={"xatol": 1e-8})
    return 1.0 / (1.0 + math.exp(-found.x[1]))


def landed(method: credo.Method) -> float:
    net = nn.Sequential(nn.Dropout(0.3), nn.Linear(1, 1, bias=False)).double()
    model = credo.Model(net, likelihoods.Gaussian(NOISE), priors.Normal(PRIOR))
    posterior = credo.fit(model, (X, Y), credo.Ensemble(method, 10), seed=1)
    return 1.0 - float(posterior.rates["0"].mean())


SETTLED = {"epochs": 500, "learning_rate": 0.03, "batch_size": None, "schedule": credo.Cosine(), "temperature": 0.05}
CLOSE = 0.03
"""The relaxation at this temperature moves the optimum by about 0.01; the mean of 10 runs scatters by less."""


@dataclass(frozen=True)
class Weighted(credo.ConcreteDropout):
    """A twin whose entropy has another weight."""

    weight: float = 1.0

    def step(self, target, state, batch, tick):  # type: ignore[no-untyped-def]
        whole = concrete.entropy
        try:
            concrete.entropy = lambda sites, logits: self.weight * whole(sites, logits)
            return super().step(target, state, batch, tick)
        finally:
            concrete.entropy = whole


def test_concrete_dropout_lands_on_the_best_rate() -> None:
    """Twins: the entropy with the wrong sign, and regularizers that are not divided by the number of data."""
    best = best_keep()
    assert 0.55 < best < 0.98
    assert abs(landed(credo.ConcreteDropout(**SETTLED)) - best) < CLOSE
    assert abs(landed(Weighted(**SETTLED, weight=-1.0)) - best) > CLOSE
    assert abs(landed(Weighted(**SETTLED, weight=float(N))) - best) > CLOSE
    assert abs(landed(Weighted(**SETTLED, weight=1 / N)) - best) > CLOSE


@pytest.mark.parametrize(
    ("consumer", "mask", "weight"),
    [
        (Layer("w", None, (4,), (3,)), (1, 4), (3, 4)),
        (Layer("w", None, (12,), (3,)), (1, 3, 1, 1), (3, 12)),  # channels, flattened
        (Layer("w", None, (12,), (3,)), (1, 3, 2, 2), (3, 12)),
        (Layer("w", None, (4,), (3,)), (1, 5, 4), (3, 4)),  # sequences
        (Layer("w", None, (4, 5, 5), (3, 1, 1), 2), (1, 4, 1, 1), (3, 4, 5, 5)),
        (Layer("w", None, (4, 3), (6, 1), 1, groups=2), (1, 4, 1), (6, 2, 3)),  # groups
        (Layer("w", None, (4, 7, 7), (4, 5, 5), 2, groups=4), (1, 4, 7, 7), (4, 1, 3, 3)),  # depthwise, units
        (Layer("w", None, (4, 1), (3, 1), 1, transposed=True), (1, 4, 1), (4, 3, 5)),
    ],
)
def test_what_a_mask_keeps_as_its_weights_see_it(
    consumer: Layer, mask: tuple[int, ...], weight: tuple[int, ...]
) -> None:
    for members in (1, 3):
        keep = torch.rand(members, *mask, generator=credo.Stream(0).generator())
        seen = consumer.by_weight(keep).expand(members, *weight)
        torch.testing.assert_close(seen.flatten(1).mean(1), keep.flatten(1).mean(1))
        even = consumer.by_weight(torch.full((members, *[1] * len(mask)), 0.3)).expand(members, *weight)
        assert bool((even == 0.3).all())


def test_channels_that_are_flattened_keep_their_order() -> None:
    keep = torch.tensor([0.1, 0.5, 0.9]).reshape(1, 1, 3, 1, 1)
    assert Layer("w", None, (6,), (1,)).by_weight(keep).flatten().tolist() == pytest.approx(
        [0.1, 0.1, 0.5, 0.5, 0.9, 0.9]
    )
    grouped = Layer("w", None, (4, 3), (4, 1), 1, groups=2).by_weight(
        torch.tensor([0.1, 0.2, 0.3, 0.4]).reshape(1, 1, 4, 1)
    )
    assert grouped.squeeze().tolist() == [pytest.approx([0.1, 0.2])] * 2 + [pytest.approx([0.3, 0.4])] * 2
