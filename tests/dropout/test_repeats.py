"""Each example several times in a batch, each time with another mask: the same gradient on average, with less noise."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import credo
from credo import likelihoods, nets, priors
from credo.model import Batch
from credo.nets.dropout import Drops

X = credo.Stream(0).normal(8, 3, dtype=torch.float64)
Y = X.sum(1, keepdim=True)
NET = nets.MLP(3, 1, (6,), dropout=0.3).double()
TARGET = credo.Target(credo.Model(NET, likelihoods.Gaussian(scale=1.0), priors.Normal(1.0)), size=40)
WEIGHTS = TARGET.model.network.given()
DRAWS, REPEATS = 200, 4


def gradients(batch: Batch, masks: int = 1) -> Tensor:
    """Of the data term at given weights, for many draws of the masks, (draws, parameters)."""
    found = []
    for seed in range(DRAWS):
        params = {name: w.detach().requires_grad_() for name, w in WEIGHTS.params.items()}
        each = TARGET.training_log_likelihood(type(WEIGHTS)(params, {}), batch, credo.Stream(seed))
        total = TARGET.data_term(each.repeat(1, masks), batch.repeated(masks)).sum()
        found.append(torch.cat([g.flatten() for g in torch.autograd.grad(total, list(params.values()))]))
    return torch.stack(found)


@pytest.fixture(scope="module")
def once() -> Tensor:
    return gradients(Batch(X, Y, factor=5.0))


def checked(several: Tensor, once: Tensor) -> tuple[float, float]:
    """The largest distance of the means in standard errors, and the ratio of the summed variances."""
    error = ((several.var(0) + once.var(0)) / DRAWS).sqrt().clamp_min(1e-12)
    return float(((several.mean(0) - once.mean(0)) / error).abs().max()), float(
        several.var(0).sum() / once.var(0).sum()
    )


def test_the_gradient_keeps_its_mean_and_loses_variance(once: Tensor) -> None:
    distance, ratio = checked(gradients(Batch(X, Y, factor=5.0).repeated(REPEATS)), once)
    assert distance < 5.0  # 31 parameters at 5 standard errors: an error rate of 2e-5
    # a sum of four independent copies, each a quarter; both variances are known to a tenth
    assert ratio == pytest.approx(1.0 / REPEATS, rel=0.3)


def test_the_same_check_rejects_one_mask_for_all_repeats(once: Tensor) -> None:
    distance, ratio = checked(gradients(Batch(X, Y, factor=5.0), masks=REPEATS), once)
    assert distance < 5.0
    assert ratio > 0.9


def test_a_repeated_batch_stands_for_the_same_sum() -> None:
    each = credo.Stream(1).normal(1, 8, dtype=torch.float64)
    for batch in (Batch(X, Y), Batch(X, Y, factor=2.0), Batch(X, Y, weight=torch.arange(8.0), factor=2.0)):
        again = TARGET.data_term(each.repeat(1, 3), batch.repeated(3))
        torch.testing.assert_close(again, TARGET.data_term(each, batch))
    own = Batch(X.expand(2, 8, 3), Y.expand(2, 8, 1), per_member=True, weight=torch.ones(2, 8), factor=1.0).repeated(2)
    assert (own.x.shape, own.y.shape, own.weight is not None and own.weight.shape) == ((2, 16, 3), (2, 16, 1), (2, 16))
    assert Batch(X, Y).repeated(1).examples == 8


def test_one_repeat_is_the_method_as_it_was() -> None:
    fits = [
        credo.fit(TARGET.model, (X, Y), credo.MCDropout(epochs=2, **options), progress=False).predict(X).mean  # type: ignore[arg-type]
        for options in ({}, {"repeats": 1}, {"repeats": 3})
    ]
    assert torch.equal(fits[0], fits[1])
    assert not torch.equal(fits[0], fits[2])


def test_misuse_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="repeats must be a whole number of at least 1"):
        credo.MCDropout(rate=0.1, repeats=0)
    with pytest.raises(ValueError, match="dropped weights are the same for a whole batch"):
        credo.MCDropout(rate=0.1, drops=Drops.WEIGHTS, repeats=2)


def test_members_and_saved_runs(tmp_path: Path) -> None:
    method = credo.Ensemble(credo.MCDropout(epochs=2, batch_size=3, repeats=2), members=2)
    first, second = (credo.fit(TARGET.model, (X, Y), method, seed=4, progress=False) for _ in range(2))
    assert torch.equal(first.predict(X).mean, second.predict(X).mean)
    read = credo.load(first.save(tmp_path), NET)
    assert torch.equal(read.predict(X).mean, first.predict(X).mean)
    assert read.record.method["method"]["repeats"] == 2
