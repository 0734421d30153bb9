"""A mask that is given beside the targets is the same as one that is written into them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import credo
from credo import likelihoods
from credo.loop.masks import masked
from output_nets import TokenClassifier, UNet

RNG = credo.Stream(13, ("masks",))
N = 8
X = RNG.child("x").normal(N, 2, 4, 4)
KEPT = RNG.child("kept").normal(N, 4, 4) > -0.5
CLASSES = (X[:, 0] > 0).long() + (X[:, 1] > 1).long()
MAPS = torch.stack([2 * X[:, 0], X[:, 1] - X[:, 0]], 1)
MAP = credo.MAP(epochs=3, batch_size=3)


def mean(model: credo.Model | nn.Module, data: Any, x: Any = X, **arguments: Any) -> Tensor:
    return credo.fit(model, data, MAP, **arguments).predict(x).mean


def maps_model(likelihood: Any = None) -> credo.Model:
    return credo.Model(UNet(2), likelihood, class_axis=1)


@pytest.mark.parametrize("mask", [KEPT, KEPT.long(), KEPT.float().numpy(), KEPT.unsqueeze(1)], ids=type)
def test_a_mask_is_what_is_written_into_classes(mask: Any) -> None:
    known = mean(UNet(3), (X, torch.where(KEPT, CLASSES, -100)))
    assert torch.equal(mean(UNet(3), (X, CLASSES), mask=mask), known)
    assert not torch.equal(mean(UNet(3), (X, CLASSES)), known)


@pytest.mark.parametrize("mask", [KEPT, KEPT.unsqueeze(1), KEPT.unsqueeze(1).expand(N, 2, 4, 4)], ids=["B", "1", "C"])
def test_a_mask_is_what_is_written_into_numbers(mask: Tensor) -> None:
    known = mean(maps_model(), (X, torch.where(KEPT.unsqueeze(1), MAPS, torch.nan)))
    assert torch.equal(mean(maps_model(), (X, MAPS), mask=mask), known)


def test_whole_numbers_that_are_no_classes_have_masks_too() -> None:
    counts = MAPS.abs().mul(3).long()
    for likelihood in (likelihoods.Poisson(), likelihoods.Gaussian()):
        known = mean(maps_model(likelihood), (X, torch.where(KEPT.unsqueeze(1), counts.float(), torch.nan)))
        assert torch.equal(mean(maps_model(likelihood), (X, counts), mask=KEPT), known)


def test_a_mask_has_its_place_among_the_data() -> None:
    known = mean(UNet(3), (X, torch.where(KEPT, CLASSES, -100)))
    weights = torch.ones(N)
    for data, arguments in (
        ((X, CLASSES, KEPT), {"mask": 2}),
        ((KEPT, X, CLASSES), {"mask": 0}),
        ((CLASSES, KEPT, X), {"mask": 1, "targets": 0}),
        ((CLASSES, KEPT, X), {"mask": -2, "targets": 0, "inputs": 2}),
        ({"x": X, "y": CLASSES, "known": KEPT}, {"mask": "known", "targets": "y", "inputs": "x"}),
        (TensorDataset(X, CLASSES, KEPT), {"mask": 2}),
    ):
        assert torch.equal(mean(UNet(3), data, **arguments), known)
    weighted = mean(UNet(3), (X, KEPT, weights, CLASSES), mask=1, weights=2)
    torch.testing.assert_close(weighted, known)


def test_an_attention_mask_is_an_input_too() -> None:
    ids = torch.arange(40).view(8, 5) % 11
    mask = (torch.arange(5) < torch.arange(1, 9).clamp_max(5).unsqueeze(1)).long()
    inputs = {"input_ids": ids, "attention_mask": mask}
    known = mean(TokenClassifier(), (inputs, torch.where(mask == 1, ids % 3, -100)), x=inputs)
    data = {**inputs, "labels": ids % 3}
    found = mean(TokenClassifier(), data, x=inputs, targets="labels", mask="attention_mask")
    assert torch.equal(found, known)


def test_a_loader_gives_masks_and_validation_has_them() -> None:
    data = TensorDataset(X, CLASSES, KEPT)
    arguments: dict[str, Any] = {"mask": 2}
    posterior = credo.fit(UNet(3), DataLoader(data, batch_size=3), MAP, validation=(X, CLASSES, KEPT), **arguments)
    accuracy = credo.metrics.accuracy(posterior.predict(X), torch.where(KEPT, CLASSES, -100))
    assert posterior.history[-1]["validation_accuracy"] == pytest.approx(accuracy)
    assert accuracy != pytest.approx(credo.metrics.accuracy(posterior.predict(X), CLASSES))


@pytest.mark.parametrize(
    ("y", "mask", "sentence"),
    [
        (CLASSES, KEPT[:, :3], r"mask has shape \(8, 3, 4\) and y \(8, 4, 4\): it needs yes or no for each position"),
        (MAPS, KEPT[:, :3], "it needs yes or no for each position"),
        (CLASSES, KEPT[:4], "it needs yes or no"),
        (torch.zeros(3, 5, 5), torch.ones(3, 5), "more than one axis of y"),
        (CLASSES, KEPT * 2, "other values than yes and no"),
        (CLASSES, KEPT[:, 0, 0], "has the weight 0"),
        ({"a": CLASSES}, KEPT, "several by name"),
    ],
)
def test_masks_that_do_not_fit_are_named(y: Any, mask: Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        masked(y, mask)


def test_misuse_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="y is masked at all positions"):
        credo.fit(UNet(3), (X, CLASSES), MAP, mask=torch.zeros_like(KEPT))
    with pytest.raises(ValueError, match="a mask of a DataLoader's examples comes with its batches"):
        credo.fit(UNet(3), DataLoader(TensorDataset(X, CLASSES), batch_size=4), MAP, mask=KEPT)
    with pytest.raises(ValueError, match="3 parts without names, and 5 is none"):
        credo.fit(UNet(3), (X, CLASSES, KEPT), MAP, mask=5)
    with pytest.raises(ValueError, match="has no 'padding': it has 'x', 'y'"):
        credo.fit(UNet(3), {"x": X, "y": CLASSES}, MAP, targets="y", mask="padding")
    flat = torch.ones(6, 2)
    for likelihood, y in ((likelihoods.Bernoulli(), flat.long()), (likelihoods.Gaussian(), flat.long())):
        with pytest.raises(ValueError, match="a mask is for targets at positions"):
            credo.fit(credo.Model(nn.Linear(2, 2), likelihood), (flat, y), MAP, mask=torch.eye(6)[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        credo.fit(nn.Linear(2, 2), (flat, flat), MAP, mask=torch.eye(6)[:, :2])
