"""Out-of-fold predictions come from networks that have not seen the row."""

import pytest
import torch

from credo import likelihoods
from credo.tabular import training, validation
from credo.tabular.calibrating import out_of_fold
from credo.tabular.predictions import predict_exactly
from credo.tabular.recipes import Settings, recipe_of, table_model
from credo.tabular.training import FitResult, learn


def table(rows: int = 61, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 3, generator=generator)
    return x, x[:, :1].sin() + 0.3 * torch.randn(rows, 1, generator=generator)


def learned(method: str, x, y, epochs: int = 4, **options) -> FitResult:
    recipe = recipe_of(method, Settings(epochs))
    model = table_model(x.shape[1], 2, likelihoods.HeteroscedasticGaussian(0.01), recipe, (8, 8), "relu")
    return learn(model, x, y, recipe, **options)


def test_a_target_has_no_part_in_its_own_out_of_fold_prediction():
    """Change the targets of some rows: where no network is left that has not seen them, predictions stay to the bit."""
    x, y = table()
    before = learned("ensemble", x, y)
    changed = before.unseen[2].nonzero()[:, 0]
    other = y.clone()
    other[changed] += 50.0
    after = learned("ensemble", x, other)
    own = [r.posterior.of_members(torch.tensor([2])).predict(x[changed]).draws for r in (before, after)]
    assert torch.equal(*own)
    found = out_of_fold(before, x, predict_exactly)
    part = next(i for i, rows in enumerate(found.rows) if torch.equal(rows, changed))
    assert torch.equal(found.parts[part].draws.float(), own[0])
    seen_twin = [r.posterior.of_members(torch.tensor([1])).predict(x[changed]).draws for r in (before, after)]
    assert not torch.equal(*seen_twin)


@pytest.mark.parametrize("method", ["ensemble", "map", "dropout"])
def test_every_row_that_was_held_out_comes_once(method):
    x, y = table(61)
    result = learned(method, x, y)
    found = out_of_fold(result, x, predict_exactly)
    assert len(found) == 60  # 61 rows in five equal parts leave one in none
    assert sorted(found.order.tolist()) == result.unseen.any(0).nonzero()[:, 0].tolist()
    assert set(found.members) == {1}
    assert found.each(lambda part: part.mean).shape == (60, 1)
    assert torch.equal(torch.cat(found.of(y)), y[found.order])
    assert (result.folds is result.posterior) == (method == "ensemble")


def test_rows_that_all_have_not_seen_are_predicted_by_all(monkeypatch):
    monkeypatch.setattr(validation, "LARGEST_COPY", 10)
    x, y = table(100)
    result = learned("ensemble", x, y)
    found = out_of_fold(result, x, predict_exactly)
    assert (len(found), found.members) == (10, (5,))
    assert torch.equal(found.parts[0].mean, predict_exactly(result.posterior, x[found.order]).mean)


def test_nothing_is_out_of_fold_where_all_rows_were_seen(monkeypatch):
    x, y = table(12)
    assert out_of_fold(learned("ensemble", x, y), x, predict_exactly) is None
    x, y = table()
    lost = training._with_folds(FitResult(learned("map", x, y).posterior, 4, None), torch.ones(5, 61, dtype=torch.bool))
    assert lost.unseen is None  # one network, and five were asked for: nobody can say which is which


def test_several_networks_that_have_not_seen_a_row_are_a_mixture():
    x, y = table()
    result = learned("ensemble", x, y)
    unseen = result.unseen | result.unseen.roll(1, 0)
    found = out_of_fold(FitResult(result.posterior, 4, None, 0, result.posterior, unseen), x, predict_exactly)
    assert set(found.members) == {2}
    rows, part = found.rows[0], found.parts[0]
    members = unseen[:, rows[0]].nonzero()[:, 0]
    alone = [result.posterior.of_members(m[None]).predict(x[rows]).mean for m in members]
    assert torch.allclose(part.mean, torch.stack(alone).mean(0).double(), atol=1e-6)
