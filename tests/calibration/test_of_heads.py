"""Calibration of several heads: each by its own calibrator, and the joint probability stays one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import credo
from credo.calibration import CdfMap, ConformalIntervals, ConformalSets, OfHead, Temperature
from credo.likelihoods import Categorical, Gaussian, Joint, Poisson
from credo.predictive import JointPredictive, Predictive, predictive
from credo.predictive.heads import JointPredictive as Heads

RNG = credo.Stream(0, ("calibration of heads",))
N = 40
X = RNG.child("x").normal(N, 2)
PRICE = X[:, :1] + 0.3 * RNG.child("price").normal(N, 1)
KIND = (X[:, 1] > 0).long() + (X[:, 1] > 1).long()
Y = {"price": PRICE, "kind": KIND}


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.price, self.kind = nn.Linear(2, 8), nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = self.body(x).tanh()
        return {"price": self.price(h), "kind": self.kind(h)}


@pytest.fixture(scope="module")
def posterior() -> credo.Posterior:
    model = credo.Model(Two().double(), Joint(price=Gaussian(scale=0.2), kind=Categorical()))
    return credo.fit(model, (X[:20], {n: t[:20] for n, t in Y.items()}), credo.DeepEnsemble(members=3, epochs=8))


def calibrators(posterior: credo.Posterior) -> dict[str, Any]:
    held = posterior.predict(X[20:])
    assert isinstance(held, JointPredictive)
    return {"price": CdfMap.of(held["price"], PRICE[20:]), "kind": Temperature.of(held["kind"], KIND[20:])}


def test_each_head_has_its_own(posterior: credo.Posterior) -> None:
    each = calibrators(posterior)
    found, plain = credo.Calibrated.of(posterior, **each).predict(X), posterior.predict(X)
    assert isinstance(found, JointPredictive)
    assert isinstance(plain, JointPredictive)
    for name, calibrator in each.items():
        expected = calibrator.apply(plain[name])
        assert torch.equal(found[name].mean, expected.mean)
        assert not torch.equal(found[name].mean, plain[name].mean)
        assert torch.equal(found[name].log_prob(Y[name]), expected.log_prob(Y[name]))
    alone = credo.Calibrated.of(posterior, kind=each["kind"]).predict(X)
    assert isinstance(alone, JointPredictive)
    assert torch.equal(alone["price"].mean, plain["price"].mean)
    torch.testing.assert_close(
        found.expected_entropy, found["price"].expected_entropy.squeeze(1) + found["kind"].expected_entropy
    )


def test_the_joint_probability_adds_up_and_has_the_calibrated_heads_as_its_parts(posterior: credo.Posterior) -> None:
    found = credo.Calibrated.of(posterior, **calibrators(posterior)).predict(X[:3])
    assert isinstance(found, JointPredictive)
    grid = torch.linspace(-8.0, 8.0, 4001, dtype=torch.float64)
    step = float(grid[1] - grid[0])
    together = torch.zeros(3, len(grid), 3, dtype=torch.float64)  # examples, prices, kinds
    for b in range(3):
        row = credo.Calibrated.of(posterior, **calibrators(posterior)).predict(X[b : b + 1].expand(len(grid), 2))
        for kind in range(3):
            y = {"price": grid.unsqueeze(1), "kind": torch.full((len(grid),), kind)}
            together[b, :, kind] = row.log_prob(y).exp()  # type: ignore[arg-type]
        assert isinstance(row, JointPredictive)
        price = row["price"].log_prob(grid.unsqueeze(1)).exp()
        torch.testing.assert_close(together[b].sum(1), price, rtol=1e-5, atol=1e-7)  # quantiles by a search
    kinds = together.sum(1) * step
    torch.testing.assert_close(kinds, found["kind"].mean, rtol=1e-4, atol=1e-5)  # an integral on a grid
    apart = found["price"].log_prob(PRICE[:3]) + found["kind"].log_prob(KIND[:3])
    assert float((found.log_prob({n: t[:3] for n, t in Y.items()}) - apart).abs().max()) > 1e-4  # type: ignore[arg-type]


def test_missing_targets_and_samples(posterior: credo.Posterior) -> None:
    found, plain = credo.Calibrated.of(posterior, **calibrators(posterior)).predict(X), posterior.predict(X)
    assert isinstance(found, JointPredictive)
    assert isinstance(plain, JointPredictive)
    hidden = {"price": torch.where(torch.arange(N).unsqueeze(1) % 2 == 0, torch.nan, PRICE), "kind": KIND}
    log_prob = found.log_prob(hidden)  # type: ignore[arg-type]
    torch.testing.assert_close(log_prob[::2], found["kind"].log_prob(KIND)[::2])
    torch.testing.assert_close(log_prob[1::2], found.log_prob(Y)[1::2])  # type: ignore[arg-type]
    drawn, before = found.sample(4, seed=1), plain.sample(4, seed=1)
    price: Any = found["price"]
    base: Any = plain["price"]
    for moved, y in zip(drawn["price"], before["price"], strict=True):
        torch.testing.assert_close(price.normal_score(moved), base.normal_score(y), rtol=1e-8, atol=1e-8)
    nothing = {"price": torch.full((N, 1), torch.nan), "kind": torch.full((N,), -100)}
    assert float(found.log_prob(nothing).abs().max()) == 0.0  # type: ignore[arg-type]


def test_heads_are_saved_read_and_moved(posterior: credo.Posterior, tmp_path: Path) -> None:
    first = credo.Calibrated.of(posterior, **calibrators(posterior))
    held: Any = first.predict(X[20:])
    second = credo.Calibrated.of(
        first,
        price=ConformalIntervals.of(held["price"], PRICE[20:]),
        kind=ConformalSets.of(held["kind"], KIND[20:]),
    )
    assert second.base is posterior
    here: Any = second.predict(X)
    there: Any = credo.load(second.save(tmp_path), Two().double()).predict(X)
    for found in (there, second.to("cpu").predict(X)):
        assert torch.equal(here["price"].interval(0.8)[0], found["price"].interval(0.8)[0])
        assert torch.equal(here["kind"].prediction_set(0.8), found["kind"].prediction_set(0.8))
        assert torch.equal(here.log_prob(Y), found.log_prob(Y))
    assert "CdfMap of 'price', Temperature of 'kind', ConformalIntervals of 'price'" in second.notes[-1]


def test_misuse_is_a_sentence(posterior: credo.Posterior) -> None:
    each, prediction = calibrators(posterior), posterior.predict(X)
    with pytest.raises(ValueError, match=r"say of which, Calibrated\.of\(posterior, price="):
        credo.Calibrated.of(posterior, each["price"])
    with pytest.raises(ValueError, match="for the head 'cost' of the posterior, and it has 'price', 'kind'"):
        credo.Calibrated.of(posterior, cost=each["price"])
    with pytest.raises(ValueError, match="for the head 'cost' of the posterior"):
        credo.Calibrated.of(posterior, OfHead("cost", each["price"]))
    with pytest.raises(ValueError, match=r"calibrate one, by prediction\['price'\] and y\['price'\]"):
        Temperature.of(prediction, Y)
    with pytest.raises(TypeError, match="use ConformalSets"):
        credo.Calibrated.of(posterior, kind=each["price"]).predict(X)
    single = credo.fit(credo.nets.MLP(2, 3), (X, KIND), credo.MAP(epochs=1))
    with pytest.raises(ValueError, match="but one output: give it without a name"):
        credo.Calibrated.of(single, kind=each["kind"])
    with pytest.raises(ValueError, match="the prediction has no heads"):
        OfHead("kind", each["kind"]).apply(single.predict(X))
    with pytest.raises(TypeError, match="calibrator must be"):
        OfHead("kind", 2.0)  # type: ignore[arg-type]


def test_a_calibrated_count_beside_other_heads_has_no_joint_probability() -> None:
    likelihood = Joint(count=Poisson(), kind=Categorical()).with_heads(
        tuple(
            credo.likelihoods.joint.Head(name, one, (size,))
            for name, one, size in (("count", Poisson(), 1), ("kind", Categorical(), 3))
        )
    )
    draws = RNG.child("draws").normal(3, N, 4, dtype=torch.float64)
    prediction: Predictive = predictive(likelihood, draws, {}, torch.zeros(3, dtype=torch.float64))
    assert isinstance(prediction, Heads)
    y = {"count": PRICE.double().abs().round(), "kind": KIND}
    calibrated = OfHead("count", CdfMap.of(prediction["count"], y["count"])).apply(prediction)
    assert bool(calibrated["count"].log_prob(y["count"]).isfinite().all())  # type: ignore[index]
    with pytest.raises(ValueError, match="the joint density of calibrated counts and other targets"):
        calibrated.log_prob(y)  # type: ignore[arg-type]
