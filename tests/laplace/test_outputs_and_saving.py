"""Outputs at positions, masks, ensembles, predictives of classes, saving; and what is refused, in sentences."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods, nets, priors
from credo.methods.laplace import curvature
from credo.posteriors import Draws, LaplaceGaussian
from credo.predictive import gaussian_predictive
from laplace_nets import CASES, inputs, loop_curvature, model_of, order_of, places

MODEL = {"precision": "model"}


def segmenter() -> nn.Module:
    with credo.Stream(0, ("segmenter",)).borrowed_global():
        return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Tanh(), nn.Conv2d(3, 2, 1)).double()


def curvature_at_positions(posterior: LaplaceGaussian, x: Tensor, y: Tensor) -> Tensor:
    """The Gauss-Newton matrix of the observed positions, each for itself, by derivatives of each output."""
    names, variables = order_of(posterior), posterior.mean
    leaves = {n: variables.params[n].clone().requires_grad_() for n in names}
    outputs = posterior.model.network.evaluate(credo.Variables({**variables.params, **leaves}, variables.buffers), x)[0]
    total: Tensor | float = 0.0
    for b, h, w in (y != -100).nonzero().tolist():
        each = outputs[b, :, h, w]
        j = torch.stack(
            [
                torch.cat([g.flatten() for g in torch.autograd.grad(o, [*leaves.values()], retain_graph=True)])
                for o in each
            ]
        )
        total = total + j.mT @ likelihoods.Categorical().fisher(each.detach(), {}) @ j
    assert isinstance(total, Tensor)
    order = places(posterior)
    return total[order][:, order]


def of_pixels(**options: object) -> tuple[LaplaceGaussian, Tensor]:
    x, y = inputs(3, 1, 3, 3), torch.randint(0, 2, (3, 3, 3), generator=torch.Generator().manual_seed(0))
    y[0, 0] = y[2, 1, 1] = -100
    posterior = credo.fit(
        model_of(segmenter(), likelihoods.Categorical()), (x, y), credo.Laplace(**{**MODEL, **options}), seed=3
    )
    return posterior, curvature_at_positions(posterior, x, y)


def found(posterior: LaplaceGaussian) -> Tensor:
    whole = torch.linalg.inv(posterior.covariance())
    return whole - torch.eye(len(whole)).double() / 0.7**2


def test_a_class_at_each_pixel_with_a_mask() -> None:
    posterior, truth = of_pixels(structure="dense", batch_size=2)
    torch.testing.assert_close(found(posterior), truth, rtol=1e-7, atol=1e-7)  # an inverse of an inverse
    prediction = posterior.predict(inputs(2, 1, 3, 3), draws=4)
    assert prediction.probs.shape == (2, 2, 3, 3)
    assert posterior.predict(inputs(2, 1, 3, 3)).epistemic.shape == (2, 2, 3, 3)


def test_many_positions_are_drawn_with_random_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The average over seeds is the sum over positions: within five standard errors (family-wise below 1e-4)."""
    _, truth = of_pixels(structure="dense")
    monkeypatch.setattr(curvature, "COLUMNS", 0)
    x, y = inputs(3, 1, 3, 3), torch.randint(0, 2, (3, 3, 3), generator=torch.Generator().manual_seed(0))
    y[0, 0] = y[2, 1, 1] = -100
    model, method = model_of(segmenter(), likelihoods.Categorical()), credo.Laplace(structure="dense", **MODEL)
    each = torch.stack([found(credo.fit(model, (x, y), method, seed=seed)) for seed in range(40)])
    error = each.std(0) / math.sqrt(40)
    assert bool(((each.mean(0) - truth).abs() <= 5.0 * error + 1e-6).all())
    assert bool(((each.mean(0) - 1.5 * truth).abs() > 5.0 * error + 1e-6).any())


def test_numbers_at_positions_share_their_noise() -> None:
    net = nn.Conv1d(2, 1, 1).double()
    x = inputs(6, 2, 5)
    y = x[:, :1] * 2 + 0.1 * inputs(6, 1, 5, seed=1)
    y[0, 0, :2] = math.nan
    model = credo.Model(net, likelihoods.LearnedGaussian(), class_axis=1)
    posterior = credo.fit(model, (x, y), credo.Laplace(**MODEL, batch_size=4))
    kept = ~y.isnan()
    scale = (y - net(x).detach())[kept].square().mean().sqrt()
    torch.testing.assert_close(posterior.mean.params["likelihood.log_scale"].exp().squeeze(), scale)


def test_predictions_in_inference_mode() -> None:
    x = inputs(6, 2).float()
    posterior = classify(nets.MLP(2, 2, (3,)), x)
    outside = [posterior.predict(x).probs, posterior.predict(x, draws=3).probs]
    with torch.inference_mode():
        inside = [posterior.predict(x.clone()).probs, posterior.predict(x.clone(), draws=3).probs]
    torch.testing.assert_close(inside, outside)


def test_an_ensemble_is_a_mixture_of_normals() -> None:
    x = torch.linspace(-1, 1, 30).double()[:, None]
    y = (3 * x).sin() + 0.1 * inputs(30, 1)
    method = credo.Laplace(after=credo.MAP(epochs=30, learning_rate=0.03, batch_size=None), batch_size=None)
    model = credo.Model(nets.MLP(1, 1, (5,)).double(), likelihoods.Gaussian(0.1), priors.Normal())
    both = credo.fit(model, (x, y), credo.Ensemble(method, members=2))
    prediction = both.predict(x)
    assert prediction.draws.shape == (2, 30, 1)
    singles = [both.of_members(torch.tensor([m])).predict(x) for m in range(2)]
    torch.testing.assert_close(prediction.mean, 0.5 * (singles[0].mean + singles[1].mean))
    between = (0.5 * (singles[0].mean - singles[1].mean)).square()
    torch.testing.assert_close(prediction.epistemic, 0.5 * (singles[0].epistemic + singles[1].epistemic) + between)
    average = torch.logsumexp(both.evidence, 0) - math.log(2)
    assert both.log_evidence.value == pytest.approx(float(average))


def test_classes_by_all_predictives() -> None:
    """Draws, probit and bridge agree where the doubt is small; each knows what it can say."""
    x = inputs(80, 2)
    y = (x[:, 0] + 0.3 * inputs(80, seed=1) > 0).long() + (x[:, 1] > 0.5).long()
    method = credo.Laplace(after=credo.MAP(epochs=150, learning_rate=0.03, batch_size=None), batch_size=None)
    model = credo.Model(nets.MLP(2, 3, (8,)).double(), likelihoods.Categorical())
    posterior = credo.fit(model, (x, y), method)
    drawn, functions = posterior.predict(x), posterior.predict(x, draws=300)
    assert drawn.draws.shape == (100, 80, 3)
    probit, bridge = (posterior.with_prediction(name).predict(x) for name in ("probit", "bridge"))
    # the Monte Carlo error of 100 draws is 0.05 at most; the closed forms are approximations
    whole = gaussian_predictive(model.likelihood, posterior.output_normal(x), {}, torch.zeros(1)).probs
    torch.testing.assert_close(probit.probs, whole)  # variances alone say as much as covariances
    for other, most in ((functions, 0.03), (probit, 0.03), (bridge, 0.06)):
        assert float((drawn.probs - other.probs).abs().mean()) < most
    assert bool((drawn.mutual_information >= 0).all())
    assert bool(bridge.mutual_information.isfinite().all())
    with pytest.raises(ValueError, match="without the variance between functions"):
        _ = probit.epistemic


def test_saved_and_read_in_another_process(tmp_path) -> None:
    x, folder = inputs(20, 2).float(), tmp_path / "run"
    model = credo.Model(nets.MLP(2, 3, (4,)), likelihoods.Categorical(), priors.Normal())
    posterior = credo.fit(model, (x, torch.arange(20) % 3), credo.Laplace(structure="dense"))
    posterior.save(folder)
    torch.save(x, folder / "x.pt")
    code = f"""
import torch, credo
posterior, x = credo.load({str(folder)!r}), torch.load({str(folder / "x.pt")!r})
found = posterior.predict(x).probs, posterior.evidence, posterior.predict(x, draws=3).draws
torch.save(found, {str(folder / "y.pt")!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    probs, evidence, draws = torch.load(folder / "y.pt")
    assert torch.equal(probs, posterior.predict(x).probs)
    assert torch.equal(evidence, posterior.evidence)
    assert torch.equal(draws, posterior.predict(x, draws=3).draws)


def classify(net: nn.Module, x: Tensor, prior: priors.Prior | None = None, **options: object) -> credo.Posterior:
    return credo.fit(
        credo.Model(net, likelihoods.Categorical(), prior), (x, torch.arange(len(x)) % 2), credo.Laplace(**options)
    )


class Times(nn.Module):
    """A parameter that no layer knows."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(2))
        self.head = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x * self.gain)


class TimeFirst(nn.Module):
    """Brings the batch to the second axis."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.token(x.transpose(0, 1)).mean(0)


def test_refusals_of_networks() -> None:
    with pytest.raises(ValueError, match=r"no curvature rule for the use of 'gain' \(mul\).*subset='last'"):
        classify(Times(), inputs(6, 2).float())
    assert classify(Times(), inputs(6, 2).float(), subset="last").blocks[0].layout.names == ("head.weight", "head.bias")
    assert classify(Times(), inputs(6, 2).float(), subset="head.w*").blocks[0].layout.names == ("head.weight",)
    with pytest.raises(ValueError, match=r"'token.weight' mixes examples, or has them along another axis"):
        classify(TimeFirst(), inputs(6, 3, 2).float())
    batch = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, track_running_stats=False), nn.Linear(3, 2))
    with pytest.raises(ValueError, match=r"'0.weight' mixes examples.*batch norm keep"):
        classify(batch, inputs(6, 2).float())
    with pytest.raises(ValueError, match=r"computes in float16.*net.float\(\)"):
        classify(nets.MLP(2, 2).half(), inputs(6, 2).half())
    frozen = nn.Sequential(nn.Linear(2, 3).requires_grad_(False), nn.Tanh(), nn.Linear(3, 2))
    assert order_of(classify(frozen, inputs(6, 2).float())) == ["2.weight", "2.bias"]


class SharedPlaces(nn.Module):
    """Embeddings of places that all examples share, used in some way."""

    def __init__(self, use: Callable[[Tensor, nn.Module], Tensor]) -> None:
        super().__init__()
        self.places, self.head, self.use = nn.Embedding(3, 2), nn.Linear(2, 2), use

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.use(x, self.places))


def test_places_that_examples_share() -> None:
    """One row of indices is repeated for each example; where that changes the outputs it is refused."""
    x, order = inputs(6, 3, 2).float(), torch.arange(3)
    classify(SharedPlaces(lambda x, places: (x + places(order[None])).mean(1)), x)
    with pytest.raises(ValueError, match=r"mixes examples.*torch.arange\(T\)\[None\]"):
        classify(SharedPlaces(lambda x, places: (x + places(order)).mean(1)), x)
    with pytest.raises(ValueError, match=r"the rows of 'places[.]weight' are the same for all examples"):
        classify(SharedPlaces(lambda x, places: (x + places(order[None]) * len(places(order[None]))).mean(1)), x)


class Packed(nn.Module):
    """A recurrent layer on sequences of different length, which torch has no forward derivative of."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRU(2, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        lengths = 1 + torch.arange(len(x)) % x.shape[1]
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.cell(packed)[1][0])


def test_a_network_without_forward_derivatives_predicts_without_draws() -> None:
    x = inputs(6, 4, 2).float()
    posterior = classify(Packed(), x, subset="last")
    assert posterior.predict(x).probs.shape == (6, 2)
    assert posterior.with_prediction("weights").predict(x, draws=3).probs.shape == (6, 2)
    with pytest.raises(ValueError, match=r"no forward derivative.*posterior.predict\(x\), or by drawn weights"):
        posterior.predict(x, draws=3)


def test_refusals_of_pairs() -> None:
    x = inputs(6, 2).float()
    with pytest.raises(ValueError, match="no Kronecker factors: use curvature='ggn'"):
        credo.Laplace(curvature="hessian")
    with pytest.raises(ValueError, match="structure='kronecker' or 'diagonal'"):
        credo.Laplace(structure="dense", by_layer=True)
    with pytest.raises(ValueError, match="batch_size is 128 here and 32"):
        credo.Laplace(after=credo.MAP(batch_size=32))
    with pytest.raises(ValueError, match="structure must be one of diagonal, kronecker, dense, got 'kfac'"):
        credo.Laplace(structure="kfac")
    with pytest.raises(ValueError, match="chooses the scale of a normal prior"):
        classify(nets.MLP(2, 2), x, priors.Laplace())
    with pytest.raises(ValueError, match="has no curvature"):
        classify(nets.MLP(2, 2), x, priors.Laplace(), **MODEL)
    with pytest.raises(ValueError, match="takes one for each layer"):
        classify(nets.MLP(2, 2), x, priors.StudentT(), **MODEL)
    with pytest.raises(ValueError, match=r"subset='headd' matches no parameter.*'all' and 'last'"):
        classify(nets.MLP(2, 2), x, subset="headd")
    with pytest.raises(ValueError, match="prediction='probit' is for classes"):
        credo.fit(nn.Linear(2, 1), (x, x[:, :1]), credo.Laplace(prediction="probit"))


@pytest.mark.parametrize("structure", ["dense", "diagonal"])
def test_a_prior_with_heavier_tails_by_its_curvature(structure: str) -> None:
    net, x = CASES["linear"].make()
    prior = priors.StudentT(df=20.0, scale=2.0)
    posterior = credo.fit(
        credo.Model(net, likelihoods.Categorical(), prior),
        (x, torch.arange(5) % 2),
        credo.Laplace(structure=structure, **MODEL),
    )
    truth = loop_curvature(posterior.model, posterior.mean, x, order_of(posterior))
    weights = {n: posterior.mean.params[n] for n in order_of(posterior)}
    prior_curvature = prior.curvature(weights, posterior.model.network.layout)
    added = torch.cat([prior_curvature[n].flatten() for n in order_of(posterior)])
    whole = (truth if structure == "dense" else truth.diagonal().diag()) + added.diag()
    torch.testing.assert_close(torch.linalg.inv(posterior.covariance()), whole, rtol=1e-7, atol=1e-7)  # an inverse
    log_joint = -0.5 * float(torch.logdet(whole)) + 0.5 * len(whole) * math.log(2 * math.pi)
    log_joint += float(prior.log_prob(weights, posterior.model.network.layout))
    log_joint += float(likelihoods.Categorical().log_prob(net(x).detach(), torch.arange(5) % 2, {}).sum())
    assert posterior.log_evidence.value == pytest.approx(log_joint, abs=1e-8)


def test_memory_is_known_beforehand() -> None:
    x = inputs(6, 50).float()
    with pytest.raises(ValueError, match=r"dense curvature would take 1.0 GiB.*structure='kronecker' takes [\d.]+ KiB"):
        classify(nets.MLP(50, 2, (100,)), x, structure="dense", memory=0.5)
    with pytest.raises(ValueError, match=r"there are 524.3 KiB: structure='diagonal' takes"):
        classify(nets.MLP(50, 2, (100,)), x, structure="dense", memory=0.0005)
    assert any("which takes" in note for note in classify(nets.MLP(50, 2, (100,)), x).notes)


@pytest.mark.filterwarnings("ignore:the curvature")
def test_numerical_trouble_is_a_note() -> None:
    x = inputs(8, 2)
    net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    posterior = classify(net, x, priors.Normal(), curvature="hessian", structure="dense")
    assert isinstance(posterior, Draws)
    assert any("negative eigenvalues" in note and "curvature='ggn'" in note for note in posterior.notes)
    huge = nn.Linear(2, 1).double()
    with torch.no_grad():
        huge.weight.fill_(1e200)
    with pytest.warns(credo.CredoWarning):
        credo.fit(credo.Model(huge, likelihoods.Gaussian(1e-200)), (x, x[:, :1]), credo.Laplace())


def test_scales_far_from_one() -> None:
    """Units of 1e-9 and 1e9: the same relative doubt."""
    x = inputs(40, 1).float()
    y = 2 * x + 0.1 * inputs(40, 1, seed=1).float()
    method = credo.Laplace(after=credo.MAP(epochs=100, learning_rate=0.03))
    ratios = []
    for unit in (1e-9, 1.0, 1e9):
        posterior = credo.fit(nets.MLP(1, 1, (6,)), (x * unit, y * unit), method)
        ratios.append(posterior.predict(x * unit).stddev / unit)
    torch.testing.assert_close(ratios[0], ratios[1], rtol=0.05, atol=1e-3)  # float32 training takes other roundings
    torch.testing.assert_close(ratios[2], ratios[1], rtol=0.05, atol=1e-3)
