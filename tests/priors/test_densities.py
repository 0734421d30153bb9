"""Every prior against scipy, in float64: density, normalization, fan-in, gradients, closed-form divergences."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor, nn

from credo import Stream
from credo.core.trees import ParameterInfo, Params
from credo.nets import MLP, Network
from credo.priors import ElementwisePrior, Laplace, Normal, Prior, ScaleMixture, StudentT
from credo.priors.base import entropy

LAYOUT = {
    "layer.weight": ParameterInfo((4, 3), 3),
    "layer.bias": ParameterInfo((4,), 1),
    "gain": ParameterInfo((), 1),
    "kernel": ParameterInfo((2, 3, 2, 2), 12),
}
MEMBERS = 3

Law = Callable[[np.ndarray], np.ndarray]


def mixture(w: np.ndarray) -> np.ndarray:
    return np.log(0.25 * stats.norm(0, 1.5).pdf(w) + 0.75 * stats.norm(0, 0.1).pdf(w))


LAWS: dict[str, tuple[Callable[..., ElementwisePrior], Law]] = {
    "Normal": (lambda **k: Normal(scale=0.7, **k), stats.norm(0, 0.7).logpdf),
    "Laplace": (
        lambda **k: Laplace(scale=0.7, **k),
        lambda w: -np.abs(w) * math.sqrt(2) / 0.7 - math.log(0.7 * math.sqrt(2)),
    ),
    "StudentT": (lambda **k: StudentT(df=3.5, scale=0.7, **k), stats.t(3.5, 0, 0.7).logpdf),
    "ScaleMixture": (lambda **k: ScaleMixture(weight=0.25, scale_1=1.5, scale_2=0.1, **k), mixture),
}
every_law = pytest.mark.parametrize(("make", "law"), LAWS.values(), ids=LAWS.keys())
with_and_without_fan_in = pytest.mark.parametrize("fan_in", [False, True], ids=["plain", "by fan-in"])


def weights(seed: int = 0) -> Params:
    return {n: Stream(seed, (n,)).normal(MEMBERS, *i.shape, dtype=torch.float64) for n, i in LAYOUT.items()}


def by_hand(law: Law, params: Params, fan_in: bool) -> np.ndarray:
    """The change of variables w = v / sqrt(fan-in), entry by entry."""
    total = np.zeros(MEMBERS)
    for name, w in params.items():
        root = math.sqrt(LAYOUT[name].fan_in) if fan_in else 1.0
        total += (law(w.numpy() * root) + math.log(root)).reshape(MEMBERS, -1).sum(1)
    return total


@every_law
@with_and_without_fan_in
def test_log_density(make, law, fan_in):
    prior = make(fan_in=fan_in)
    found = prior.log_prob(weights(), LAYOUT)
    assert found.shape == (MEMBERS,)
    np.testing.assert_allclose(found, by_hand(law, weights(), fan_in), rtol=1e-12)


@every_law
@with_and_without_fan_in
def test_each_weight_on_its_own(make, law, fan_in):
    prior = make(fan_in=fan_in)
    each = prior.log_prob_each(weights(), LAYOUT)
    assert {name: t.shape for name, t in each.items()} == {name: t.shape for name, t in weights().items()}
    total = sum(t.reshape(MEMBERS, -1).sum(1) for t in each.values())
    torch.testing.assert_close(total, prior.log_prob(weights(), LAYOUT), rtol=1e-12, atol=1e-12)


@every_law
@pytest.mark.parametrize("fan_in", [1, 9])
def test_densities_integrate_to_one(make, law, fan_in):
    layout = {"w": ParameterInfo((1, 1), fan_in)}
    prior = make(fan_in=True)

    def density(w: float) -> float:
        return math.exp(float(prior.log_prob({"w": torch.full((1, 1, 1), w, dtype=torch.float64)}, layout)))

    ends = [0.0, 0.05, 0.5, 5.0, 50.0, np.inf]
    half = sum(integrate.quad(density, a, b, epsabs=1e-11)[0] for a, b in pairwise(ends))
    assert 2 * half == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize(
    "twin",
    [
        lambda w: -0.5 * (w / 0.7) ** 2 - 0.5 * math.log(2 * math.pi),  # no log scale
        stats.norm(0, math.sqrt(0.7)).logpdf,  # a variance taken for a standard deviation
        lambda w: stats.norm(0, 0.7).logpdf(w) + 0.5,  # a stray half for every weight
        lambda w: stats.norm(0, 0.7).logpdf(w) / 2,  # divided by the number of layers
    ],
    ids=["no log scale", "variance for scale", "half per weight", "by the number of layers"],
)
def test_wrong_normals_are_told_apart(twin):
    found = Normal(scale=0.7).log_prob(weights(), LAYOUT).numpy()
    assert np.abs(found - by_hand(twin, weights(), fan_in=False)).min() > 1.0


def test_wrong_mixtures_are_told_apart():
    """The mean of the logs of both normals, and one coin for all weights of a member, are other densities."""
    found = LAWS["ScaleMixture"][0]().log_prob(weights(), LAYOUT).numpy()
    wide, narrow = stats.norm(0, 1.5).logpdf, stats.norm(0, 0.1).logpdf
    mean_of_logs = by_hand(lambda w: 0.25 * wide(w) + 0.75 * narrow(w), weights(), fan_in=False)
    one_coin = np.logaddexp(
        math.log(0.25) + by_hand(wide, weights(), fan_in=False),
        math.log(0.75) + by_hand(narrow, weights(), fan_in=False),
    )
    assert (found - mean_of_logs).min() > 10.0
    assert np.abs(found - one_coin).min() > 1.0


def test_fan_in_without_its_volume_is_told_apart():
    """The density of w sqrt(n) is not that of w: the twin forgets log sqrt(n) for every weight."""
    prior = Normal(scale=0.7, fan_in=True)
    twin = prior.log_prob(weights(), LAYOUT) - 12 * 0.5 * math.log(3) - 24 * 0.5 * math.log(12)
    assert not np.allclose(twin, by_hand(LAWS["Normal"][1], weights(), fan_in=True), atol=1.0)


@pytest.mark.parametrize(
    ("layer", "fan_in"),
    [
        (nn.Linear(5, 3), 5),
        (nn.Conv2d(4, 6, 3, groups=2), 18),
        (nn.ConvTranspose2d(4, 6, 3), 36),
        (nn.ConvTranspose2d(4, 6, 3, groups=2), 18),
        (nn.Embedding(5, 3), 1),
    ],
    ids=lambda v: str(v).split(",")[0],
)
def test_fan_in_of_layers(layer, fan_in):
    network = Network(layer)
    params = network.given().params
    expected = stats.norm(0, 0.7 / math.sqrt(fan_in)).logpdf(params["weight"].double().numpy()).sum()
    if "bias" in params:
        expected += stats.norm(0, 0.7).logpdf(params["bias"].double().numpy()).sum()
    doubled = {name: p.double() for name, p in params.items()}
    assert float(Normal(0.7, fan_in=True).log_prob(doubled, network.layout)) == pytest.approx(expected, rel=1e-10)


def test_functions_do_not_depend_on_the_width_of_the_net():
    """With fan-in scaling the prior over functions converges as the net grows; without it (the twin) it explodes."""
    x = torch.ones(1, 1, dtype=torch.float64)

    def spread(prior: Prior, width: int) -> float:
        network = Network(MLP(1, 1, (width, width), "tanh").double())
        drawn = {n: w.double() for n, w in prior.sample(network.layout, 400, Stream(0)).items()}
        return float(network.evaluate(type(network.given())(drawn), x).std())

    narrow, wide = (spread(Normal(fan_in=True), width) for width in (10, 160))
    assert wide / narrow == pytest.approx(1.0, abs=0.3)  # 400 draws: six standard errors of a ratio of scales
    assert spread(Normal(), 160) / spread(Normal(), 10) > 2.5


@every_law
@with_and_without_fan_in
def test_gradients(make, law, fan_in):
    prior, names = make(fan_in=fan_in), list(LAYOUT)
    values = [w.requires_grad_() for w in weights().values()]

    def function(*tensors: Tensor) -> Tensor:
        return prior.log_prob(dict(zip(names, tensors, strict=True)), LAYOUT)

    assert torch.autograd.gradcheck(function, values)
    found = torch.autograd.grad(function(*values)[1], values)
    assert all(not bool(g[[0, 2]].any()) for g in found)
    batched = torch.func.vmap(lambda w: prior.log_prob({"gain": w}, LAYOUT))(weights()["layer.bias"].reshape(4, 3))
    torch.testing.assert_close(batched[1], prior.log_prob({"gain": weights()["layer.bias"].reshape(4, 3)[1]}, LAYOUT))


def test_a_normal_prior_is_weight_decay():
    params = {name: w.requires_grad_() for name, w in weights().items()}
    found = torch.autograd.grad(Normal(scale=0.7).log_prob(params, LAYOUT).sum(), list(params.values()))
    for gradient, w in zip(found, params.values(), strict=True):
        torch.testing.assert_close(gradient, -w / 0.49, rtol=1e-12, atol=1e-12)


@every_law
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3])
def test_float32_weights_of_any_size(make, law, size):
    """A mixture by logarithms of sums of exponentials, not by sums of exponentials, which are all zero at 1e3."""
    w = torch.tensor([[size, -size]], requires_grad=True)
    prior = make(fan_in=False)
    found = prior.log_prob({"w": w}, {"w": ParameterInfo((2,), 1)})
    (gradient,) = torch.autograd.grad(found.sum(), w)
    law = wide_part if law is mixture and size > 1 else law  # in float64 the sum of exponentials is zero, too
    expected = float(law(np.array([size, -size])).sum())
    assert found.tolist() == pytest.approx([expected], rel=1e-5)  # seven digits of float32
    assert bool(gradient.isfinite().all())


def wide_part(w: np.ndarray) -> np.ndarray:
    return stats.norm(0, 1.5).logpdf(w) + math.log(0.25)


def test_the_narrowest_mixture_of_the_paper_is_finite():
    """Blundell et al. use -log scale_2 up to 8."""
    prior = ScaleMixture(weight=0.75, scale_1=1.0, scale_2=math.exp(-8))
    w = torch.tensor([[0.0, 1e-4, 1.0, 1e3]], requires_grad=True)
    found = prior.log_prob({"w": w}, {"w": ParameterInfo((4,), 1)})
    (gradient,) = torch.autograd.grad(found.sum(), w)
    assert bool(found.isfinite().all())
    assert bool(gradient.isfinite().all())


def test_equal_scales_make_a_mixture_normal():
    one = ScaleMixture(weight=0.3, scale_1=0.7, scale_2=0.7).log_prob(weights(), LAYOUT)
    torch.testing.assert_close(one, Normal(0.7).log_prob(weights(), LAYOUT), rtol=1e-12, atol=1e-12)


def test_many_degrees_of_freedom_make_a_student_normal():
    one = StudentT(df=1e7, scale=0.7).log_prob(weights(), LAYOUT)
    torch.testing.assert_close(one, Normal(0.7).log_prob(weights(), LAYOUT), rtol=1e-4, atol=1e-4)  # O(1 / df)


@pytest.mark.parametrize("prior", [Normal(0.7), Normal(0.7, fan_in=True), Laplace(0.7), Laplace(0.7, fan_in=True)])
def test_expectation_under_a_normal(prior):
    """E_q[log p] by quadrature, one weight at a time; a parameter without a scale is a point."""
    layout = {"w": ParameterInfo((2,), 4), "point": ParameterInfo((), 1)}
    mean = {"w": torch.tensor([[0.3, -2.0]]).double(), "point": torch.tensor([0.8]).double()}
    scale = {"w": torch.tensor([[1.5, 0.01]]).double()}

    def log_p(name: str, w: float) -> float:
        return float(prior.log_prob_each({name: torch.tensor([w]).double()}, layout)[name])

    def integrand(w: float, m: float, s: float) -> float:
        return stats.norm.pdf(w, m, s) * log_p("w", w)

    expected = log_p("point", 0.8)
    for m, s in zip(mean["w"][0].tolist(), scale["w"][0].tolist(), strict=True):
        ends = sorted({m - 10 * s, m, m + 10 * s, *([0.0] if abs(m) < 10 * s else [])})  # |w| has a kink at zero
        expected += sum(integrate.quad(integrand, a, b, (m, s))[0] for a, b in pairwise(ends))
    assert float(prior.expected_log_prob(mean, scale, layout)) == pytest.approx(expected, abs=1e-6)
    assert abs(float(prior.log_prob(mean, layout)) - expected) > 0.1  # the twin: log p at the mean


@with_and_without_fan_in
def test_divergence_from_a_normal_prior(fan_in):
    mean, scale = weights(1), {name: 0.1 + w.abs() for name, w in weights(2).items()}
    found = Normal(0.7, fan_in=fan_in).kl(mean, scale, LAYOUT)
    expected = torch.zeros(MEMBERS, dtype=torch.float64)
    for name, info in LAYOUT.items():
        width = torch.tensor(0.7 / math.sqrt(info.fan_in if fan_in else 1), dtype=torch.float64)
        q = torch.distributions.Normal(mean[name], scale[name])
        p = torch.distributions.Normal(torch.zeros_like(width), width)
        expected += torch.distributions.kl_divergence(q, p).reshape(MEMBERS, -1).sum(1)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(found / len(LAYOUT), expected, rtol=0.1)  # the twin that divides by the layers
    assert not torch.allclose(found + 0.5 * 41, expected, rtol=1e-2)  # the twin with a half for every weight


def test_a_prior_without_a_closed_form_says_so():
    assert ScaleMixture().expected_log_prob(weights(), weights(), LAYOUT) is None
    assert StudentT().kl(weights(), weights(), LAYOUT) is None


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_numbers_that_cannot_be_meant(bad):
    for make, name in (
        (lambda v: Normal(v), "scale"),
        (lambda v: Laplace(v), "scale"),
        (lambda v: StudentT(df=v), "df"),
        (lambda v: StudentT(scale=v), "scale"),
        (lambda v: ScaleMixture(scale_1=v), "scale_1"),
        (lambda v: ScaleMixture(scale_2=v), "scale_2"),
    ):
        with pytest.raises(ValueError, match=f"{name} must be a positive number"):
            make(bad)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.5, math.nan])
def test_the_weight_of_a_mixture_lies_inside(bad):
    with pytest.raises(ValueError, match="weight must lie strictly between 0 and 1"):
        ScaleMixture(weight=bad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_entropy_of_tiny_scales_is_finite(dtype: torch.dtype) -> None:
    """Scales whose product is no number any more in float32: 1e-30 each."""
    scale = {"w": torch.full((2, 5), 1e-30, dtype=dtype)}
    exact = 5 * (math.log(1e-30) + 0.5 * math.log(2 * math.pi * math.e))
    torch.testing.assert_close(entropy(scale), torch.full((2,), exact, dtype=dtype))


def test_nothing_has_no_entropy_and_no_density() -> None:
    assert float(entropy({})) == 0.0
    for prior in (Normal(), Laplace(), StudentT(), ScaleMixture()):
        assert float(prior.log_prob({}, LAYOUT)) == 0.0
        assert prior.kl({}, {}, LAYOUT) in (None, 0.0)
    points = weights()
    torch.testing.assert_close(Normal().kl(points, {}, LAYOUT), -Normal().log_prob(points, LAYOUT))


def test_the_gradient_of_a_scale_mixture_is_that_of_its_formula() -> None:
    w = torch.linspace(-3.0, 3.0, 40, dtype=torch.float64)
    leaf, plain = w.clone().unsqueeze(0).requires_grad_(), w.clone().requires_grad_()
    parts = [torch.distributions.Normal(0.0, scale).log_prob(plain) + math.log(0.5) for scale in (1.0, 0.1)]
    (found,) = torch.autograd.grad(ScaleMixture().log_prob({"w": leaf}, {"w": ParameterInfo((40,), 7)}).sum(), leaf)
    (expected,) = torch.autograd.grad(torch.logaddexp(*parts).sum(), plain)
    torch.testing.assert_close(found[0], expected)
    assert not torch.allclose(-w, expected), "the twin forgets the narrow part"
