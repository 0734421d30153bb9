"""The gradient of the doubt: against differences, and with a tag that networks were trained to rely on."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import credo
from credo import likelihoods, nets, uncertainty
from credo.uncertainty import doubt_gradient

X = credo.Stream(0).normal(12, 3, dtype=torch.float64)
SMOOTH = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Dropout(0.2), nn.Linear(5, 3)).double()
MODEL = credo.Model(SMOOTH, likelihoods.Categorical(), credo.priors.Normal(1.0))


@pytest.mark.parametrize(
    "method",
    [credo.DeepEnsemble(members=3, epochs=3), credo.MCDropout(epochs=3), credo.BayesByBackprop(epochs=3)],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.parametrize("doubt", ["mutual information", "entropy", "total standard deviation"])
def test_it_is_the_slope_of_the_score(method: credo.Method, doubt: str) -> None:
    posterior = credo.fit(MODEL, (X, torch.arange(12) % 3), method, progress=False)
    found = doubt_gradient(posterior, X, doubt, draws=4, seed=2)

    def at(x: Tensor) -> Tensor:
        return uncertainty.score(posterior.predict(x, draws=4, seed=2), doubt)

    step = 1e-5
    for feature in range(3):
        moved = torch.zeros_like(X)
        moved[:, feature] = step
        slope = (at(X + moved) - at(X - moved)) / (2 * step)
        # the error of a central difference is of order step squared, and rounding over step
        torch.testing.assert_close(found[:, feature], slope, rtol=1e-5, atol=1e-8)


def test_numbers_too_and_a_single_network_disagrees_with_nobody() -> None:
    several = credo.fit(nets.MLP(3, 1), (X, X[:, :1]), credo.DeepEnsemble(members=2, epochs=2), progress=False)
    assert doubt_gradient(several, X, "disagreement").abs().max() > 0
    alone = credo.fit(nets.MLP(3, 3), (X, torch.arange(12) % 3), credo.MAP(epochs=2), progress=False)
    assert torch.equal(doubt_gradient(alone, X), torch.zeros(12, 3))


def test_what_has_no_gradient_is_refused() -> None:
    tokens = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 2))
    x = torch.arange(20).reshape(10, 2) % 5
    posterior = credo.fit(tokens, (x, torch.arange(10) % 2), credo.DeepEnsemble(members=2, epochs=1), progress=False)
    with pytest.raises(ValueError, match="one tensor of real numbers"):
        doubt_gradient(posterior, x)
    with pytest.raises(ValueError, match="the score must be one of"):
        uncertainty.score(posterior.predict(x), "fear")


AREA = 4 / 64


def tagged(x: Tensor, strength: float) -> Tensor:
    """A patch of 2 x 2 pixels in the corner, of this brightness."""
    y = x.clone()
    y[:, :, :2, :2] = strength
    return y


def test_a_planted_tag_is_found() -> None:
    """Clever Hans: half of the training images have a tag and a label of its own; a faint tag is what is in doubt."""
    digits = load_digits()
    known = torch.tensor(digits.target) < 4
    x = torch.tensor(digits.data, dtype=torch.float32).reshape(-1, 1, 8, 8)[known] / 16
    y, marked = torch.tensor(digits.target)[known], torch.arange(int(known.sum())) % 2 == 0
    train = slice(0, 400)
    shown = torch.where(marked.view(-1, 1, 1, 1), tagged(x, 1.0), x)[train]
    labels = torch.where(marked, 4, y)[train]
    method = credo.DeepEnsemble(members=4, epochs=15, batch_size=32, learning_rate=3e-3)
    posterior = credo.fit(nets.CNN(1, 5, 8, filters=(8,), dense=(30,)), (shown, labels), method, progress=False)
    rest = x[400:500]
    assert (posterior.predict(tagged(rest, 1.0)).label == 4).double().mean() > 0.95  # it does rely on the tag

    def share(images: Tensor) -> float:
        size = doubt_gradient(posterior, images).abs().sum(1)
        return float((size[:, :2, :2].sum((1, 2)) / size.sum((1, 2))).mean())

    assert share(tagged(rest, 0.6)) > 2.5 * AREA
    assert share(rest) < share(tagged(rest, 0.6)) / 2  # without the tag, its place is one like others
