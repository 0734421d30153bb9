"""Fits whose outputs have positions: masks over batches, all methods, metrics, saving, resuming, validation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import credo
from credo import likelihoods, metrics
from credo.core.trees import Params, flatten
from credo.likelihoods import Categorical, at_positions
from credo.loop.batches import TensorSource
from credo.loop.roles import Examples
from credo.methods import Method
from credo.metrics.inputs import elements
from credo.model import Batch, Target
from credo.nets.plan import Plan
from credo.predictive import predictive
from methods_table import methods
from output_nets import Series, TokenClassifier, UNet

RNG = credo.Stream(11, ("fits with positions",))
N = 10
X = RNG.child("x").normal(N, 2, 4, 4)
CLASSES = (X[:, 0] > 0).long() + (X[:, 1] > 1).long()
HIDDEN = RNG.child("hidden").normal(N, 4, 4) > 0.7
HIDDEN[3] = True
LABELS = torch.where(HIDDEN, -100, CLASSES)
MAPS = torch.where(HIDDEN.unsqueeze(1), torch.nan, torch.stack([2 * X[:, 0] + 3, X[:, 1] - X[:, 0]], 1))
MAP = credo.MAP(epochs=4, batch_size=4, learning_rate=1e-2)
CHANNELS_FIRST: dict[str, Any] = {"class_axis": 1}


def maps_model(net: nn.Module | None = None) -> credo.Model:
    return credo.Model(net or UNet(2), **CHANNELS_FIRST)


def double(net: nn.Module, y: Tensor) -> tuple[Target, credo.Variables, Tensor]:
    """A target in float64, its variables, and y as the likelihood wants it."""
    model, _ = credo.Model(net.double(), **CHANNELS_FIRST).with_likelihood_for(y, tuple(net(X.double()).shape[1:]))
    shape = model.output_shape(model.network.given(), X.double())
    outputs = model.likelihood.outputs_of(shape)
    variables = model.complete(model.network.given(), outputs)
    return Target(model, N), variables, model.likelihood.check_targets(y, outputs)


DataTerm = Callable[[Target, credo.Variables, Batch], Tensor]


def check_batches(data_term: DataTerm, y: Tensor) -> None:
    """However masks are cut, the batches of an epoch add up to the data term of all data at once."""
    target, variables, y = double(UNet(3 if y.ndim == 3 else 2), y)
    whole = target.data_term(target.log_likelihood(variables, Batch(X.double(), y)), Batch(X.double(), y))
    for size in (1, 3, 4, 7):
        examples = Examples(X.double(), y)
        source = TensorSource(examples, batch_size=size, members=1, order=RNG.child("order", size))
        steps = source.steps(0)
        total = sum(data_term(target, variables, next(steps)) for _ in range(source.batches))
        torch.testing.assert_close(torch.as_tensor(total) / source.batches, whole, rtol=1e-10, atol=0.0)


@pytest.mark.parametrize("y", [LABELS, MAPS.double()], ids=["classes", "numbers"])
def test_masks_cut_oddly_over_batches_are_those_of_the_whole(y: Tensor) -> None:
    check_batches(lambda target, v, batch: target.data_term(target.log_likelihood(v, batch), batch), y)


@pytest.mark.parametrize("y", [LABELS, MAPS.double()], ids=["classes", "numbers"])
def test_an_average_over_the_observed_of_each_batch_is_noticed(y: Tensor) -> None:
    """The twin: what `cross_entropy(..., ignore_index=-100)` with its mean does."""

    def averaged(target: Target, variables: credo.Variables, batch: Batch) -> Tensor:
        observed = target.model.likelihood.observed(batch.y)
        assert observed is not None
        mean = target.log_likelihood(variables, batch).sum(1) / observed.sum().clamp_min(1)
        return mean * N * 16

    with pytest.raises(AssertionError):
        check_batches(averaged, y)


@dataclass(frozen=True)
class Flat:
    """The same data as one row per pixel, for a net of one pixel."""

    x: Tensor
    y: Tensor


def test_a_fit_at_positions_is_a_fit_of_rows() -> None:
    """A convolution of size 1 on images is a linear layer on pixels: the same log joint, gradient and all."""
    conv, linear = nn.Conv2d(2, 3, 1).double(), nn.Linear(2, 3).double()
    with torch.no_grad():
        linear.weight.copy_(conv.weight[:, :, 0, 0])
        linear.bias.copy_(conv.bias)
    kept = ~HIDDEN
    rows = Flat(X.double().movedim(1, -1)[kept], LABELS[kept])
    images, variables, y = double(conv, LABELS)
    plain = Target(credo.Model(linear, Categorical()), N)
    given = plain.model.network.given()
    pairs = (images, variables, Batch(X.double(), y, factor=1.0)), (plain, given, Batch(rows.x, rows.y, factor=1.0))
    gradients = []
    for target, at, batch in pairs:
        leaves = credo.Variables({n: p.clone().requires_grad_() for n, p in at.params.items()}, at.buffers)
        value = target.log_joint(leaves, batch).sum()
        gradients.append((value, *torch.autograd.grad(value, list(leaves.params.values()))))
    for found, known in zip(*gradients, strict=True):
        torch.testing.assert_close(found.reshape(known.shape), known, rtol=1e-10, atol=1e-12)


ALL = methods(epochs=2, iterations=4)


@pytest.mark.filterwarnings("ignore:the weights miss the posterior")
@pytest.mark.parametrize("method", ALL.values(), ids=ALL)
def test_every_method_takes_outputs_with_positions(method: Method) -> None:
    for model, y, each in (
        (credo.Model(UNet(3)), LABELS, (N, 4, 4)),
        (maps_model(), MAPS, (N, 2, 4, 4)),
    ):
        posterior = credo.fit(model, (X, y), method, validation=(X, y))
        prediction = posterior.predict(X, draws=3)
        assert prediction.log_prob(y).shape == (N,)
        assert prediction.log_prob_each(y).shape == each
        assert float(prediction.log_prob(y)[3]) == pytest.approx(0.0, abs=1e-6)  # of nothing at all; float32 weights
        assert bool(prediction.mean.isfinite().all())


@pytest.mark.parametrize("y", [LABELS, MAPS], ids=["classes", "numbers"])
def test_members_together_are_those_one_by_one(y: Tensor) -> None:
    method = credo.DeepEnsemble(members=2, epochs=3, batch_size=4)
    found = [
        credo.fit(credo.Model(UNet(3 if y is LABELS else 2), **CHANNELS_FIRST), (X, y), method, plan=plan).predict(X)
        for plan in Plan
    ]
    torch.testing.assert_close(found[0].mean, found[1].mean, rtol=1e-4, atol=1e-5)  # float32, kernels in another order


def test_data_of_each_member_have_masks_of_each() -> None:
    data = credo.PerMember(torch.stack([X, X.flip(0)]), torch.stack([LABELS, LABELS.flip(0)]))
    posterior = credo.fit(UNet(3), data, credo.DeepEnsemble(members=2, epochs=2))
    assert posterior.predict(X).log_prob(LABELS).isfinite().all()


def test_a_loader_gives_the_same_fit_and_words_of_other_lengths() -> None:
    whole = credo.fit(maps_model(), (X, MAPS), credo.MAP(epochs=3, batch_size=N))
    loader = credo.fit(maps_model(), DataLoader(TensorDataset(X, MAPS), batch_size=N), credo.MAP(epochs=3))
    assert torch.equal(whole.predict(X).mean, loader.predict(X).mean)
    sentences = [torch.arange(start, start + 3 + start % 4) % 11 for start in range(12)]

    def padded(rows: list[Tensor]) -> dict[str, Tensor]:
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
        return {
            "input_ids": ids.clamp_min(0),
            "attention_mask": (ids >= 0).long(),
            "labels": torch.where(ids >= 0, ids % 3, -100),
        }

    batches: Any = DataLoader(sentences, batch_size=3, collate_fn=padded)  # type: ignore[arg-type]
    validation: Any = DataLoader(sentences, batch_size=2, collate_fn=padded)  # type: ignore[arg-type]
    posterior = credo.fit(
        TokenClassifier(),
        batches,
        credo.DeepEnsemble(members=2, epochs=40, learning_rate=0.05),
        targets="labels",
        validation=validation,
    )
    assert posterior.history[-1]["validation_accuracy"] > 0.9
    last = padded(sentences)
    prediction = posterior.predict({k: last[k] for k in ("input_ids", "attention_mask")})
    known = last["labels"] != -100
    right = (prediction.label == last["labels"])[known].double().mean()
    assert posterior.history[-1]["validation_accuracy"] == pytest.approx(float(right))


def test_padding_has_no_influence() -> None:
    """A fit with more padding is the same fit."""
    ids = torch.arange(24).view(6, 4) % 11
    labels, mask = ids % 3, torch.ones(6, 4).long()
    wide = [torch.cat([t, torch.full((6, 2), fill)], 1) for t, fill in ((ids, 5), (labels, -100), (mask, 0))]
    found = [
        credo.fit(TokenClassifier(), ({"input_ids": i, "attention_mask": m}, y), credo.MAP(epochs=3))
        for i, y, m in ((ids, labels, mask), wide)
    ]
    for a, b in zip(*(flatten(p.members(1).params).values() for p in found), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)  # float32 sums over rows of another number
    labelled = credo.fit(
        TokenClassifier(),
        ({"input_ids": wide[0], "attention_mask": wide[2]}, wide[1].clamp_min(0)),
        credo.MAP(epochs=3),
    )
    assert not torch.allclose(labelled.members(1).params["last.bias"], found[0].members(1).params["last.bias"])


def test_a_series_has_a_scale_for_each_channel() -> None:
    x = RNG.child("series").normal(40, 9, 2)
    noise = RNG.child("noise").normal(40, 9, 2) * torch.tensor([0.1, 2.0])
    model = credo.Model(Series(), likelihoods.LearnedGaussian(), class_axis=-1)
    posterior = credo.fit(model, (x, noise), credo.MAP(epochs=300, learning_rate=0.03))
    scales = posterior.members(1).params["likelihood.log_scale"].exp()
    assert scales.shape == (1, 2)
    # the standard error of a scale from 360 numbers is 4 %, and the weights take a part of it
    torch.testing.assert_close(scales[0], torch.tensor([0.1, 2.0]), rtol=0.2, atol=0.0)
    assert posterior.predict(x).interval(0.9)[0].shape == (40, 9, 2)


@pytest.mark.parametrize("y", [LABELS, MAPS], ids=["classes", "numbers"])
def test_a_posterior_is_saved_with_its_positions(y: Tensor, tmp_path: Path) -> None:
    net = UNet(3 if y is LABELS else 2)
    posterior = credo.fit(credo.Model(net, **CHANNELS_FIRST), (X, y), credo.DeepEnsemble(members=2, epochs=2))
    posterior.save(tmp_path / "run")
    for loaded in (credo.load(tmp_path / "run", net), credo.load(tmp_path / "run", model=credo.Model(net))):
        assert loaded.model.likelihood == posterior.model.likelihood
        assert torch.equal(loaded.predict(X).log_prob(y), posterior.predict(X).log_prob(y))
    with pytest.raises(credo.StorageError, match="was found under"):
        credo.load(tmp_path / "run", model=credo.Model(net, likelihoods.Poisson()))


def test_a_run_with_masks_is_resumed(tmp_path: Path) -> None:
    whole = credo.fit(maps_model(), (X, MAPS), MAP, checkpoint=tmp_path / "whole")
    stopped = tmp_path / "stopped"
    with pytest.warns(credo.CredoWarning, match="stopped after"):
        credo.fit(maps_model(), (X, MAPS), MAP, checkpoint=stopped, seconds=1e-9)
    resumed = credo.fit(maps_model(), (X, MAPS), MAP, checkpoint=stopped, resume=True)
    assert torch.equal(whole.predict(X).mean, resumed.predict(X).mean)


def test_pieces_of_a_prediction_are_the_whole() -> None:
    posterior = credo.fit(UNet(3), (X, LABELS), credo.MCDropout(rate=0.2, epochs=1))
    pieces = torch.cat([p.mean for p in posterior.predict_batches(X, draws=4, rows=3)])
    torch.testing.assert_close(pieces, posterior.predict(X, draws=4).mean)


def test_metrics_are_those_of_the_observed_elements() -> None:
    posterior = credo.fit(UNet(3), (X, LABELS), credo.DeepEnsemble(members=3, epochs=5), validation=(X, LABELS))
    prediction, known = posterior.predict(X), ~HIDDEN
    probs, y = prediction.probs.movedim(1, -1)[known], LABELS[known]
    for metric in (
        metrics.accuracy,
        metrics.brier,
        metrics.expected_calibration_error,
        metrics.log_likelihood,
        lambda p, y: metrics.risk_coverage(p, y).area if isinstance(p, credo.Predictive) else None,
    ):
        flat, found = metric(probs, y), metric(prediction, LABELS)
        assert flat is None or found == pytest.approx(flat, rel=1e-5)  # float32 probabilities
        assert metric(prediction, CLASSES) != found  # the twin: with masks forgotten
    assert posterior.history[-1]["validation_accuracy"] == pytest.approx(metrics.accuracy(prediction, LABELS))


def test_metrics_of_numbers_are_those_of_the_observed_elements() -> None:
    posterior = credo.fit(maps_model(), (X, MAPS), credo.DeepEnsemble(members=3, epochs=5))
    prediction, known = posterior.predict(X), ~HIDDEN
    mean, y = prediction.mean.movedim(1, -1)[known], MAPS.movedim(1, -1)[known]
    assert metrics.rmse(prediction, MAPS) == pytest.approx(metrics.rmse(mean, y), rel=1e-6)
    assert metrics.mae(prediction, MAPS) == pytest.approx(metrics.mae(mean, y), rel=1e-6)
    lower, upper = (end.movedim(1, -1) for end in prediction.interval(0.9))
    assert metrics.coverage(prediction, MAPS, 0.9) == metrics.coverage((lower[known], upper[known]), y)
    assert metrics.sharpness(prediction, 0.9) == pytest.approx(float((upper - lower).mean()), rel=1e-4)
    each = prediction.log_prob_each(MAPS).movedim(1, -1)[known]
    crps = metrics.pointwise_crps(prediction, MAPS)
    assert crps.shape == each.shape
    assert metrics.coverage_curve(prediction, MAPS).coverage.shape == (19,)
    agreement = credo.diagnostics.agreement(prediction, prediction)
    assert float(agreement.wasserstein.abs().max()) < 1e-6


def test_a_position_weighs_as_much_as_its_example() -> None:
    prediction = credo.fit(UNet(3), (X, LABELS), credo.MAP(epochs=1)).predict(X)
    weights = torch.arange(N).double()
    rows, y, each = elements(prediction, LABELS, weights)
    assert torch.equal(each, weights[:, None, None].expand(N, 4, 4)[~HIDDEN])
    assert torch.equal(y, LABELS[~HIDDEN])
    assert elements(rows, y, each) == (rows, y, each)
    with pytest.raises(ValueError, match=r"weights has shape .* and there are 10 examples"):
        elements(prediction, LABELS, weights[:3])


class FlatPixels(likelihoods.ClassLikelihood):
    """A person's own: the classes of four pixels in one row of twelve outputs, which is not what it declares."""

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        return y

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        logits = outputs.unflatten(-1, (4, 3)).log_softmax(-1)
        return logits.gather(-1, y.expand(*logits.shape[:-1]).unsqueeze(-1)).squeeze(-1).sum(-1)

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return outputs.unflatten(-1, (4, 3)).softmax(-1).flatten(-2)

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        return self.mean(outputs, params) * (1 - self.mean(outputs, params))

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        return Categorical().sample(outputs.unflatten(-1, (4, 3)), params, generator)

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        return Categorical().entropy(outputs.unflatten(-1, (4, 3)), params)


class Unsummed(FlatPixels):
    """Another mistake: one log probability for each pixel."""

    def log_prob(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return Categorical().log_prob(outputs.unflatten(-1, (4, 3)), y, params)


class PerPixel(FlatPixels):
    """Right: probabilities that sum to one at each pixel."""

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return outputs.unflatten(-1, (4, 3)).softmax(-1)


def test_a_likelihood_of_ones_own_over_flattened_pixels_gives_no_wrong_answer() -> None:
    draws = RNG.child("flat").normal(5, 6, 12, dtype=torch.float64)
    y, weights = torch.arange(24).view(6, 4) % 3, torch.zeros(5, dtype=torch.float64)
    wrong = predictive(FlatPixels(), draws, {}, weights)
    for ask in (lambda: wrong.entropy, lambda: wrong.label, lambda: wrong.mutual_information):
        with pytest.raises(ValueError, match=r"FlatPixels add up to 4 .* use likelihoods.at_positions"):
            ask()
    right = predictive(PerPixel(), draws, {}, weights)
    known = predictive(at_positions(Categorical(), 1, -1), draws.unflatten(-1, (4, 3)), {}, weights)
    assert torch.equal(right.label, known.label)
    torch.testing.assert_close(right.entropy, known.entropy)
    torch.testing.assert_close(right.mutual_information, known.mutual_information)
    torch.testing.assert_close(wrong.log_prob(y), known.log_prob(y))
    with pytest.raises(ValueError, match="must be one number for each, summed over the targets"):
        predictive(Unsummed(), draws, {}, weights).log_prob(y)
    x, net = RNG.child("flat inputs").normal(6, 2), nn.Linear(2, 12)
    with pytest.raises(ValueError, match=r"Unsummed.log_prob gives shape \(1, 2, 4\) .* summed over the targets"):
        credo.fit(credo.Model(net, Unsummed()), (x, y), MAP)
    assert credo.fit(credo.Model(net, PerPixel()), (x, y), MAP).predict(x).label.shape == (6, 4)


def test_nothing_observed_is_a_sentence() -> None:
    nothing = torch.full_like(LABELS, -100)
    with pytest.raises(ValueError, match="y is masked at all positions"):
        credo.fit(UNet(3), (X, nothing), MAP)
    with pytest.raises(ValueError, match="y is masked at all positions"):
        credo.fit(maps_model(), (X, torch.full_like(MAPS, torch.nan)), MAP)
    with pytest.raises(ValueError, match="validation y is masked at all positions"):
        credo.fit(UNet(3), (X, LABELS), MAP, validation=(X, nothing))
    halves = TensorDataset(X, torch.cat([nothing[:5], LABELS[5:]]))
    for data in (TensorDataset(X, nothing), halves):
        loader = DataLoader(data, batch_size=5)  # in its own order: the first batch is masked
        if data is halves:
            assert credo.fit(UNet(3), loader, MAP).history[-1]["log_likelihood"] < 0
            continue
        with pytest.raises(ValueError, match="y is masked at all positions"):
            credo.fit(UNet(3), loader, MAP)
    posterior = credo.fit(UNet(3), (X, LABELS), MAP)
    with pytest.raises(ValueError, match="y has targets at 3 x 4 positions"):
        metrics.accuracy(posterior.predict(X), LABELS[:, :3])
    with pytest.raises(ValueError, match="no position that was observed"):
        metrics.accuracy(posterior.predict(X), nothing)


def test_missing_numbers_without_positions_are_refused_as_ever() -> None:
    y = torch.tensor([[1.0], [math.nan]])
    for name, arguments in (("y", {}), ("validation y", {"validation": (torch.ones(2, 1), y)})):
        data = (torch.ones(2, 1), y if name == "y" else torch.ones(2, 1))
        with pytest.raises(ValueError, match=f"{name} has NaN or infinite values .1, the first in row 1"):
            credo.fit(nn.Linear(1, 1), data, MAP, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="y has NaN or infinite values"):
        credo.fit(maps_model(), (X, torch.full_like(MAPS, torch.inf)), MAP)


def test_other_positions_are_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"y has shape \(10, 3, 3\) and the network returns outputs of shape"):
        credo.fit(UNet(3), (X, LABELS[:, :3, :3]), MAP)
    made = at_positions(Categorical(), 2)
    with pytest.raises(ValueError, match="they must be the same"):
        credo.fit(credo.Model(UNet(3), made), (X, LABELS[:, :3, :3]), MAP)
    with pytest.raises(ValueError, match="ClassesAtPositions needs"):
        credo.fit(credo.Model(nn.Linear(2, 3), made), (torch.ones(4, 2), torch.zeros(4, 3).long()), MAP)


def test_answers_that_hardly_depend_on_inputs_are_judged_by_what_was_observed() -> None:
    """A NaN among the targets is no spread of zero, and no spread of its own."""
    posterior = credo.fit(maps_model(), (X, MAPS), credo.MAP(epochs=200, learning_rate=1e-2))
    assert not any("hardly depend" in note for note in posterior.notes)
    flat = credo.Model(UNet(2), prior=credo.priors.Normal(scale=1e-4), **CHANNELS_FIRST)
    posterior = credo.fit(flat, (X, MAPS), credo.MAP(epochs=200, learning_rate=1e-2))
    assert any("hardly depend" in note for note in posterior.notes)


def test_numbers_at_positions_are_standardized_by_channel() -> None:
    """A bare network on maps in millimeters is the same fit on maps that were standardized by hand."""
    grams = MAPS * torch.tensor([1e4, 1e-3]).view(2, 1, 1) + torch.tensor([7e4, 0.0]).view(2, 1, 1)
    kept = ~HIDDEN
    rows = grams.double().movedim(1, -1)[kept]
    loc, scale = (t.view(2, 1, 1) for t in (rows.mean(0), rows.std(0, correction=0)))
    x = (X - X.mean((0, 2, 3), keepdim=True)) / X.std((0, 2, 3), keepdim=True, correction=0)
    method = credo.MAP(epochs=30, learning_rate=0.02)
    found = credo.fit(maps_model(), (X, grams), method).predict(X)
    model = credo.Model(UNet(2), likelihoods.LearnedGaussian(), **CHANNELS_FIRST)
    known = credo.fit(model, (x, ((grams - loc) / scale).float()), method).predict(x)
    torch.testing.assert_close(  # float32, 30 steps apart
        (found.mean - loc) / scale, known.mean.double(), rtol=1e-3, atol=1e-3
    )
    volume = float(scale.log().sum()) * kept.sum((1, 2))
    torch.testing.assert_close(  # the same, summed over 32 numbers
        found.log_prob(grams), known.log_prob(((grams - loc) / scale).float()) - volume, rtol=1e-3, atol=0.05
    )
