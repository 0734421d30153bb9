"""Where the classes or channels of outputs with positions lie: stated, found by the shape of y, or asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import credo
from credo.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    GrayCrossEntropy,
    HeteroscedasticGaussian,
    LearnedGaussian,
    Likelihood,
    Poisson,
    at_positions,
)
from credo.likelihoods.placing import placed

WHOLE, REAL = torch.long, torch.float32


def zeros(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.zeros(7, *shape, dtype=dtype)


@pytest.mark.parametrize(
    ("given", "y", "shape", "axis", "base"),
    [
        (None, zeros(WHOLE, 8, 6), (3, 8, 6), -3, Categorical()),
        (None, zeros(WHOLE, 8, 6), (8, 6, 3), -1, Categorical()),
        (None, zeros(WHOLE, 8, 6), (8, 3, 6), -2, Categorical()),
        (None, zeros(WHOLE, 5), (5, 3), -1, Categorical()),
        (None, zeros(WHOLE, 5), (3, 5), -2, Categorical()),
        (None, zeros(torch.bool, 8, 6), (1, 8, 6), -3, Bernoulli()),
        (None, zeros(WHOLE, 1, 8, 6), (3, 8, 6), -3, Categorical()),
        (None, zeros(WHOLE, 8, 6, 1), (3, 8, 6), -3, Categorical()),
        (None, zeros(WHOLE, 1, 8, 6), (1, 8, 6), -3, Bernoulli()),
        (None, zeros(REAL, 8, 6), (1, 8, 6), -3, LearnedGaussian()),
        (None, zeros(REAL, 1, 8, 6), (1, 8, 6), -3, LearnedGaussian()),
        (None, zeros(REAL, 5, 1), (5, 1), -1, LearnedGaussian()),
        (Categorical(), zeros(REAL, 8, 6), (3, 8, 6), -3, Categorical()),
        (Gaussian(), zeros(REAL, 2, 8, 6), (2, 8, 6), -3, Gaussian()),
        (Gaussian(), zeros(REAL, 5, 4), (5, 4), -1, Gaussian()),
        (Poisson(), zeros(WHOLE, 2, 8, 6), (2, 8, 6), -3, Poisson()),
        (Bernoulli(), zeros(WHOLE, 2, 8, 6), (2, 8, 6), -3, Bernoulli()),
        (GrayCrossEntropy(), zeros(REAL, 2, 8, 6), (2, 8, 6), -3, GrayCrossEntropy()),
        (HeteroscedasticGaussian(), zeros(REAL, 2, 8, 6), (4, 8, 6), -3, HeteroscedasticGaussian()),
        (HeteroscedasticGaussian(), zeros(REAL, 5, 3), (5, 6), -1, HeteroscedasticGaussian()),
        (HeteroscedasticGaussian(), zeros(REAL, 8, 6), (2, 8, 6), -3, HeteroscedasticGaussian()),
    ],
    ids=str,
)
def test_the_axis_is_found(
    given: Likelihood | None, y: Tensor, shape: tuple[int, ...], axis: int, base: Likelihood
) -> None:
    made, note = placed(given, y, shape, None)
    assert (made.base, made.class_axis, made.axes) == (base, axis, len(shape) - 1)
    assert f"{base} at each position" in note
    assert f"along axis {axis + len(shape) + 1}" in note


@pytest.mark.parametrize(
    ("given", "y", "shape"),
    [
        (None, zeros(WHOLE, 5), (5, 5)),
        (None, zeros(WHOLE, 8, 6), (8, 8, 6)),
        (None, zeros(REAL, 5, 4), (5, 4)),
        (None, zeros(REAL, 2, 8, 6), (2, 8, 6)),
        (LearnedGaussian(), zeros(REAL, 5, 4), (5, 4)),
        (None, zeros(REAL, 1, 4), (1, 4)),
    ],
    ids=str,
)
def test_a_sentence_asks_where_several_would_do_and_takes_the_answer(
    given: Likelihood | None, y: Tensor, shape: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"say which one it is, Model\(net, class_axis=1\) or"):
        placed(given, y, shape, None)
    for stated in (1, 2, -1):
        axis = stated if stated < 0 else stated - len(shape) - 1
        if y.ndim == len(shape) + 1 or shape[axis] == shape[0]:
            assert placed(given, y, shape, stated)[0].class_axis == axis


@pytest.mark.parametrize(
    ("given", "y", "shape", "stated", "sentence"),
    [
        (None, zeros(WHOLE), (5, 3), None, r"y has shape \(7,\) and the network returns outputs of shape \(B, 5, 3\)"),
        (None, zeros(WHOLE, 4), (5, 3), None, "nn.Flatten"),
        (None, zeros(WHOLE, 8, 6), (3, 8, 6), 2, "class_axis=2 was stated"),
        (None, zeros(WHOLE, 8, 6), (3, 8, 6), 4, "class_axis=4 is no axis of the outputs"),
        (None, zeros(WHOLE, 3, 8, 6), (3, 8, 6), 1, "give class numbers, one at each position"),
        (None, zeros(WHOLE, 3, 8, 6), (3, 8, 6), None, "give class numbers, one at each position"),
        (Gaussian(), zeros(REAL, 8, 5), (2, 8, 6), None, "one number for each output, at each position"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_said(
    given: Likelihood | None, y: Tensor, shape: tuple[int, ...], stated: int | None, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        placed(given, y, shape, stated)


def test_a_model_takes_an_axis_after_the_batch() -> None:
    net: Any = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="class_axis=0 is the batch"):
        credo.Model(net, class_axis=0)
    with pytest.raises(TypeError, match="class_axis must be a whole number"):
        credo.Model(net, class_axis="channels")  # type: ignore[arg-type]


def test_an_axis_that_is_not_that_of_the_likelihood_is_refused() -> None:
    image, y = torch.zeros(4, 2, 3, 3), torch.zeros(4, 3, 3).long()
    conv, linear = torch.nn.Conv2d(2, 3, 1), torch.nn.Linear(2, 3)
    made = at_positions(Categorical(), 2, 1)
    for model, data in (
        (credo.Model(conv, made, class_axis=2), (image, y)),
        (credo.Model(linear, class_axis=2), (image[:, :, 0, 0], y[:, 0, 0])),
    ):
        with pytest.raises(ValueError, match=r"class_axis=2 was stated, and the outputs .* along axis 1"):
            credo.fit(model, data, credo.MAP(epochs=1))
    for axis in (1, -3):
        credo.fit(credo.Model(conv, made, class_axis=axis), (image, y), credo.MAP(epochs=1))
    credo.fit(credo.Model(linear, class_axis=1), (image[:, :, 0, 0], y[:, 0, 0]), credo.MAP(epochs=1))


def test_one_output_at_each_position_needs_an_axis() -> None:
    """A network whose last axis was squeezed: nobody can tell positions from channels."""
    x, conv = torch.randn(4, 2, 3, 5, generator=credo.Stream(0).generator()), torch.nn.Conv2d(2, 1, 1)
    for y in (x[:, 0], (x[:, 0] > 0).long()):
        with pytest.raises(ValueError, match=r"let the network return \(B, 1, \.\.\.\), as by unsqueeze"):
            credo.fit(credo.Model(conv, outputs=lambda h: h.squeeze(1)), (x, y), credo.MAP(epochs=1))
        assert credo.fit(conv, (x, y), credo.MAP(epochs=1)).predict(x).mean.shape == (4, 1, 3, 5)
    with pytest.raises(ValueError, match=r"outputs of shape \(B,\), and .* unsqueeze\(1\) makes a column"):
        credo.fit(credo.Model(conv, outputs=lambda h: h.mean((1, 2, 3))), (x, x[:, 0, 0, 0]), credo.MAP(epochs=1))


def test_positions_are_counted() -> None:
    conv, linear = torch.nn.Conv2d(2, 3, 1), torch.nn.Linear(2, 3)
    for net, x, y, count in (
        (conv, torch.zeros(4, 2, 4, 5), torch.zeros(4, 4, 5).long(), 20),
        (linear, torch.zeros(4, 2), torch.zeros(4).long(), 1),
    ):
        model = credo.fit(net, (x, y), credo.MAP(epochs=1)).model
        assert model.positions(model.network.given(), x) == count
