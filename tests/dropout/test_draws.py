"""Drawn functions of a network with dropout: fixed, unrelated to one another, and right in number.

Statistical assertions have an error rate of 1e-6 each, and the seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import credo
from credo import likelihoods
from credo.core.trees import Variables
from credo.nets import MLP
from credo.posteriors import Dropout
from credo.posteriors.functions import NetworkFunctions

ERROR_RATE = 1e-6
X = credo.Stream(3).normal(12, 3)
Y = X[:, :1].sin()
FAST = {"epochs": 2, "learning_rate": 1e-2}
METHODS = {
    "units": credo.MCDropout(rate=0.3, **FAST),
    "weights": credo.MCDropout(rate=0.3, drops="weights", **FAST),
    "learned by layer": credo.ConcreteDropout(initial_rate=0.3, **FAST),
    "learned by unit": credo.ConcreteDropout(initial_rate=0.3, sharing="unit", **FAST),
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


def fitted(method: credo.Method, net: nn.Module | None = None, **more: object) -> Dropout:
    posterior = credo.fit(credo.Model(net or MLP(3, 1, (16, 8)), likelihoods.Gaussian(0.5)), (X, Y), method, **more)
    assert isinstance(posterior, Dropout)
    return posterior


@every_method
@pytest.mark.parametrize("members", [1, 3])
def test_one_draw_is_one_function_and_another_is_another(method: credo.Method, members: int) -> None:
    functions = fitted(credo.Ensemble(method, members)).draw(9, seed=4)
    same = functions(X[:1].expand(5, 3))
    torch.testing.assert_close(same, same[:, :1].expand_as(same))  # one mask for the whole batch
    torch.testing.assert_close(functions(X[3:7]), functions(X)[:, 3:7])
    assert len(functions(X).flatten(1).unique(dim=0)) == 9


class OneMask(NetworkFunctions):
    """A twin that gives all draws one mask."""

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x)[:1].expand(len(self), -1, -1)


def varies(functions: Callable[[Tensor], Tensor]) -> bool:
    return float(functions(X).var(0).min()) > 0.0


@every_method
def test_draws_have_masks_of_their_own(method: credo.Method) -> None:
    functions = fitted(method).draw(20)
    assert varies(functions)
    twin = OneMask(functions.model, functions.variables, functions.log_weights, functions.masks, functions.rates)
    assert not varies(twin)


@every_method
def test_naive_is_the_network_at_its_expectation(method: credo.Method) -> None:
    posterior = fitted(method)
    prediction = posterior.at_mean().predict(X)
    torch.testing.assert_close(prediction.draws, posterior.model.network.evaluate(posterior.variables, X))
    assert float(prediction.epistemic.max()) == 0.0
    assert posterior.at_mean().record == posterior.record


def test_hard_masks_have_the_learned_rates() -> None:
    """Units are dropped as often as their rate says: each unit for itself."""
    net = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 6, bias=False))
    model = credo.Model(net, likelihoods.Gaussian(1.0)).network.with_dropout(
        credo.nets.network.DropoutChange(0.1, inserted=True)
    )
    weights = {
        "0.weight": torch.zeros(1, 6, 3),
        "0.bias": torch.ones(1, 6),
        "2.weight": torch.eye(6).unsqueeze(0),
    }
    rates = torch.tensor([0.05, 0.2, 0.4, 0.6, 0.8, 0.95]).reshape(1, 1, 6)
    posterior = Dropout(credo.Model(model, likelihoods.Gaussian(1.0)), Variables(weights), {"2": rates})
    count = 20_000
    drawn = posterior.draw(count)(X[:1])[:, 0]  # 0 or 1 / keep
    for unit, rate in enumerate(rates.flatten().tolist()):
        dropped = int((drawn[:, unit] == 0).sum())
        assert stats.binomtest(dropped, count, rate).pvalue > ERROR_RATE
        assert stats.binomtest(dropped, count, min(rate + 0.04, 1 - rate / 2)).pvalue < ERROR_RATE
        assert float(drawn[:, unit].max()) == pytest.approx(1 / (1 - rate), rel=1e-5)  # float32


def test_total_variance_converges_like_one_over_the_root_of_the_draws() -> None:
    """Errors of the variance with 16 times the draws are a fourth: the slope is -1/2 within 0.15.

    With 200 repetitions of each size the root of the mean square is known to 5 %, so the slope to 0.03. The twin, one
    mask for all draws, does not converge at all.
    """
    posterior = fitted(credo.MCDropout(rate=0.3, **FAST)).to("cpu")
    truth = posterior.predict(X[:1], draws=40_000, seed=99).variance.item()
    sizes, errors = (25, 400), []
    for size in sizes:
        many = posterior.draw(size * 200, seed=1)(X[:1]).reshape(200, size)
        errors.append(float((many.var(1, correction=0) + 0.25 - truth).square().mean().sqrt()))
    slope = torch.log(torch.tensor(errors[1] / errors[0])) / torch.log(torch.tensor(sizes[1] / sizes[0]))
    assert abs(float(slope) + 0.5) < 0.15
    assert abs(0.25 - truth) > 3 * errors[1]  # the twin's error, however many its draws


@every_method
def test_batches_of_predictions_are_the_prediction(method: credo.Method) -> None:
    posterior = fitted(credo.Ensemble(method, 2))
    whole = posterior.predict(X, draws=7, seed=5)
    parts = list(posterior.predict_batches(X.numpy(), draws=7, seed=5, rows=5))
    assert [len(part) for part in parts] == [5, 5, 2]
    torch.testing.assert_close(torch.cat([part.mean for part in parts]), whole.mean)
    torch.testing.assert_close(torch.cat([part.variance for part in parts]), whole.variance)
    assert len(list(posterior.predict_batches(X, draws=7))) == 1


def test_batches_of_predictions_are_refused_with_a_sentence() -> None:
    posterior = fitted(METHODS["units"])
    with pytest.raises(ValueError, match="rows must be a whole number of at least 1, got 0"):
        next(posterior.predict_batches(X, rows=0))
    with pytest.raises(ValueError, match="NaN"):
        list(posterior.predict_batches(torch.full((3, 3), float("nan"))))


def test_masks_come_in_blocks_that_are_unrelated(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = fitted(METHODS["units"])
    monkeypatch.setattr("credo.posteriors.functions.MASK_ENTRIES", 24 * 4)  # four draws at a time
    assert len(posterior.draw(40)(X).flatten(1).unique(dim=0)) == 40


def test_learned_rates_travel_with_the_posterior(tmp_path) -> None:
    posterior = fitted(credo.Ensemble(METHODS["learned by unit"], 2))
    assert {name: tuple(rate.shape) for name, rate in posterior.rates.items()} == {
        "layers.3": (2, 1, 16),
        "layers.5": (2, 1, 8),
    }
    assert all(bool(((rate > 0) & (rate < 1)).all()) for rate in posterior.rates.values())
    posterior.save(tmp_path / "run")
    loaded = credo.load(tmp_path / "run")
    assert isinstance(loaded, Dropout)
    assert list(loaded.rates) == list(posterior.rates)
    assert all(torch.equal(loaded.rates[name], rate) for name, rate in posterior.rates.items())
    assert torch.equal(loaded.predict(X, draws=5).draws, posterior.predict(X, draws=5).draws)
    assert "rate" in posterior.history[-1]
    assert any("rates are learned" in note for note in posterior.notes)
    assert any("learned dropout rates: 0." in note for note in posterior.notes)
    gone = Dropout(posterior.model, posterior.variables, {name: 0 * rate for name, rate in posterior.rates.items()})
    assert "fell to nothing" in gone.notes[-1]
    assert "fell to nothing" not in posterior.notes[-1]
