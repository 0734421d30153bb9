"""Held-out rows say when to stop."""

import warnings

import numpy as np
import pytest
import torch

import credo
from credo import likelihoods, metrics, nets
from credo.data.splits import folds
from credo.posteriors import Draws, Dropout
from credo.tabular import recipes, training, validation
from credo.tabular.recipes import Settings, recipe_of, table_model
from credo.tabular.training import FitResult, ValidationPoint, learn


def noisy_table(rows: int, seed: int, features: int = 10) -> tuple[torch.Tensor, torch.Tensor]:
    """A weak signal in one column, much noise, and nine columns that say nothing: easy to overfit."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, features))
    y = np.sin(x[:, :1]) + generator.normal(size=(rows, 1))
    return torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def learned(method: str, x, y, settings: Settings, seed: int = 0, **options) -> FitResult:
    recipe = recipe_of(method, settings)
    model = table_model(x.shape[1], 2, likelihoods.HeteroscedasticGaussian(0.01), recipe, (30, 30), "relu")
    return learn(model, x, y, recipe, seed=seed, **options)


def test_stopping_saves_the_likelihood_of_a_small_table():
    """The twin is a plain ensemble, without prior and held-out rows, trained to the end: it is much too sure."""
    (x, y), (x_test, y_test) = noisy_table(150, 0), noisy_table(2000, 1)
    stopped = learned("ensemble", x, y, Settings(epochs=400)).posterior.predict(x_test)
    model = credo.Model(nets.MLP(10, 2, (30, 30)), likelihoods.HeteroscedasticGaussian(0.01))
    plain = credo.Ensemble(credo.MaximumLikelihood(epochs=400, learning_rate=3e-3, batch_size=64), 5)
    overfitted_twin = credo.fit(model, (x, y), plain)
    sure = overfitted_twin.predict(x_test)
    good, bad = (metrics.log_likelihood(p, y_test) for p in (stopped, sure))
    naive = metrics.log_likelihood(
        credo.predictive.predictive(
            likelihoods.Gaussian(float(y.std())), y.mean().expand(1, 2000, 1), {}, torch.zeros(1)
        ),
        y_test,
    )
    assert good > naive
    assert good > bad + 1.0
    assert abs(metrics.coverage(stopped, y_test) - 0.95) < 0.04  # 150 rows: six seeds gave 0.926 to 0.963
    assert metrics.coverage(sure, y_test) < 0.7


def test_each_member_is_looked_at_on_rows_it_has_not_seen():
    """Targets that are pure noise can be learned by heart, and only rows not seen can tell."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(100, 5, generator=generator), torch.randn(100, 1, generator=generator)
    points: list[ValidationPoint] = []
    result = learned("ensemble", x, y, Settings(epochs=1000, learning_rate=0.01), listener=points.append)
    assert points[-1].epochs < 1000
    assert result.validation == max(point.log_likelihood for point in points)
    assert (
        result.validation < -1.3
    )  # a standard normal target has -1.42 on average; learned by heart it has more than 0
    assert [point.best for point in points].count(True) >= 1
    assert points[-1].log_likelihood < result.validation


def test_held_out_rows_have_no_part_in_training():
    """Change the targets that member 0 holds out: its weights stay the same to the bit, those of others do not."""
    x, y = noisy_table(60, 0)
    rows = folds(60, 5, seed=0).held[0]
    other = y.clone()
    other[rows] += 100.0
    before, after = (learned("ensemble", x, t, Settings(epochs=5)).posterior.members().params for t in (y, other))
    for name in before:
        assert torch.equal(before[name][0], after[name][0])
    assert any(not torch.equal(before[name][1], after[name][1]) for name in before)


def test_same_seed_same_bits():
    x, y = noisy_table(60, 0)
    first, second, other = (learned("ensemble", x, y, Settings(epochs=8), seed=s).posterior for s in (3, 3, 4))
    draws = [p.predict(x).draws for p in (first, second, other)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_one_story_of_all_looks():
    x, y = noisy_table(200, 0)
    result = learned("ensemble", x, y, Settings(epochs=130))
    history = result.posterior.history
    epochs = [row["epoch"] for row in history]
    assert epochs == [float(e) for e in range(1, len(epochs) + 1)]
    scored = {row["epoch"]: row["validation_log_likelihood"] for row in history if "validation_log_likelihood" in row}
    assert scored[float(result.epochs)] == result.validation == max(scored.values())
    assert any("trained without its own part of the rows" in note for note in result.posterior.notes)
    seconds = [row["seconds"] for row in history]
    assert seconds == sorted(seconds)


def test_cooling_is_kept_where_it_helps():
    """Without noise, what is left of the error is the jitter of a constant learning rate, and cooling removes it.

    The best of many points before may be a lucky one, which hides the gain of one run, but not that of all four.
    """
    x, gains = torch.randn(1500, 2, generator=torch.Generator().manual_seed(0)), []
    for seed in range(4):
        points: list[ValidationPoint] = []
        result = learned(
            "ensemble", x, x[:, :1], Settings(epochs=20, learning_rate=0.01), seed=seed, listener=points.append
        )
        gains.append(result.validation - max(point.log_likelihood for point in points[:-1]))
        assert (gains[-1] > 0.0) == (result.cooling > 0)
        assert result.cooling == 0 or result.epochs == points[-1].epochs
        epochs = [row["epoch"] for row in result.posterior.history]
        assert not result.cooling or epochs == [float(e) for e in range(1, result.epochs + 1)]
    assert max(gains) > 0.1
    one = learned("map", x, x[:, :1], Settings(epochs=20, learning_rate=0.01))
    assert [row["epoch"] for row in one.posterior.history] == [float(e) for e in range(1, one.epochs + 1)]


def test_cooling_is_dropped_where_it_harms():
    """Targets of pure noise: the longer the worse."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(100, 5, generator=generator), torch.randn(100, 1, generator=generator)
    points: list[ValidationPoint] = []
    result = learned("ensemble", x, y, Settings(learning_rate=0.01), listener=points.append)
    assert (result.cooling, points[-1].best) == (0, False)
    assert result.validation == max(point.log_likelihood for point in points)


def test_one_row_cannot_outvote_the_others():
    """Ninety-nine rows say stay; one row that was predicted far off and with certainty shouts louder in plain logs."""
    x = torch.zeros(100, 1)
    y = torch.zeros(100, 1)
    y[0] = 10.0
    net = nets.MLP(1, 1, ())
    model = credo.Model(net, likelihoods.Gaussian(0.1))
    posterior = credo.fit(model, (x, y * 0), credo.MAP(epochs=200, learning_rate=0.05), progress=False)
    held = validation.ValidationRows((x, y), credo.Batch(x, y), validation._naive(y), 100)
    plain_twin = float(credo.Target(posterior.model, 100).log_likelihood(posterior.members(), held.batch).mean())
    assert held.score(posterior) > 0.8
    assert plain_twin < -40


def test_an_interrupted_training_keeps_the_best_so_far(monkeypatch):
    x, y = noisy_table(60, 0)
    calls: list[float | None] = []
    plain = training.fit

    def short(*args, **options):
        calls.append(None)
        return plain(*args, **options, seconds=1e-9 if len(calls) == 3 else None)

    monkeypatch.setattr(training, "fit", short)
    with pytest.warns(credo.CredoWarning, match="stopped after"):
        result = learned("ensemble", x, y, Settings())
    assert len(calls) <= 4  # three looks, and cooling where the best of them was finished
    assert result.validation is not None


def sloping(rows: int = 100) -> tuple[torch.Tensor, torch.Tensor]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 3))
    y = x[:, :1] + 0.1 * generator.normal(size=(rows, 1))
    return torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def test_networks_that_diverge_at_once_leave_the_others() -> None:
    x, y = sloping()
    with pytest.warns(credo.CredoWarning, match="are left out of the posterior"):
        result = learned("ensemble", x, y, Settings(epochs=60, learning_rate=2e5), seed=5)
    assert 0 < result.posterior.members().members < 5
    assert result.validation is None
    assert "the others are the result" in result.posterior.record.notes[-1]
    assert bool(result.posterior.predict(x).mean.isfinite().all())


@pytest.mark.parametrize("lost_in", [2, 3])
def test_networks_that_diverge_later_leave_the_best_so_far(monkeypatch, lost_in: int) -> None:
    x, y = sloping()
    settings, stages = Settings(epochs=60), []

    def some_diverge(*arguments, **options):
        posterior = credo.fit(*arguments, **options)
        stages.append(posterior)
        return posterior.of_members(torch.tensor([0, 3])) if len(stages) == lost_in else posterior

    points: list[ValidationPoint] = []
    learned("ensemble", x, y, settings, listener=points.append)
    monkeypatch.setattr(training, "fit", some_diverge)
    result = learned("ensemble", x, y, settings)
    whole = max(points[: lost_in - 1], key=lambda point: point.log_likelihood)
    assert result.posterior.members().members == 10
    assert result.epochs - result.cooling == whole.epochs


def test_a_training_that_diverges_altogether_is_a_sentence() -> None:
    x, y = sloping()
    with pytest.warns(credo.CredoWarning), pytest.raises(ValueError, match=r"training diverged.*lower learning_rate"):
        learned("ensemble", x, y, Settings(epochs=60, learning_rate=1e12))


@pytest.mark.parametrize(("name", "stage"), [("ensemble", 0), ("ensemble", 2), ("map", 3), ("vi", 0)])
def test_a_training_that_was_stopped_goes_on_to_the_same_bits(monkeypatch, tmp_path, name, stage):
    """Interrupted within a stage, after some of its steps; what comes then is as if nothing had been."""
    x, y = noisy_table(60, 0)
    settings = Settings(epochs=200)
    whole = learned(name, x, y, settings)
    calls: list[None] = []
    plain = training.fit

    def stopped(*args, **options):
        calls.append(None)
        if len(calls) <= stage:
            return plain(*args, **options)
        plain(*args, **options, seconds=1e-9)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "fit", stopped)
    with pytest.raises(KeyboardInterrupt), warnings.catch_warnings(action="ignore"):
        learned(name, x, y, settings, folder=tmp_path)
    monkeypatch.setattr(training, "fit", plain)
    resumed = learned(name, x, y, settings, folder=tmp_path)
    assert (resumed.epochs, resumed.validation) == (whole.epochs, whole.validation)
    for key, value in whole.posterior.tensors().items():
        assert torch.equal(value, resumed.posterior.tensors()[key])
    with pytest.raises(credo.StorageError, match="another run"):
        learned(name, x, y + 1, settings, folder=tmp_path)


def test_nothing_beats_a_score_of_zero_but_more():
    posterior = credo.fit(nets.MLP(1, 1), (torch.zeros(2, 1), torch.zeros(2, 1)), credo.MAP(epochs=1), progress=False)
    assert not training._beats(-0.5, FitResult(posterior, 1, 0.0))
    assert training._beats(0.5, FitResult(posterior, 1, 0.0))


def test_one_network_is_trained_again_on_all_rows():
    x, y = noisy_table(100, 0)
    for name, kind in (("map", Draws), ("dropout", Dropout)):
        result = learned(name, x, y, Settings(epochs=60))
        assert isinstance(result.posterior, kind)
        assert result.posterior.members().members == 1
        assert result.posterior.record.size == 100
        assert result.posterior.history[-1]["epoch"] == result.epochs
        assert any("chose" in note for note in result.posterior.notes)
    assert learned("ensemble", x, y, Settings(epochs=20, members=1)).posterior.members().members == 1


def test_variational_inference_begins_at_the_most_probable_weights(monkeypatch):
    """It is better than a guess where fresh weights would become the prior, and its folds are variational too."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(120, 6, generator=generator)
    y = (x[:, 0] + 0.3 * torch.randn(120, generator=generator) > 0.0).long()
    recipe = recipe_of("vi", Settings(epochs=60))
    model = table_model(6, 2, likelihoods.Categorical(), recipe)
    result = learn(model, x, y, recipe)
    prediction = result.posterior.predict(x)
    assert float(prediction.mutual_information.mean()) > 0.0
    assert float((prediction.probs.argmax(1) == y).float().mean()) > 0.85
    assert result.validation > -0.5  # a guess has -0.69
    assert any("began at the most probable weights" in note for note in result.posterior.notes)
    assert (type(result.folds), len(result.unseen)) == (type(result.posterior), 5)
    assert result.posterior.history[-1]["epoch"] > result.epochs
    fresh = credo.fit(model, (x, y), recipe.refinement(120).method, seed=0, progress=False)
    worse = float(metrics.log_likelihood(fresh.predict(x), y))
    assert float(metrics.log_likelihood(prediction, y)) > worse + 0.05  # the broken twin: from fresh weights
    assert learned("vi", *noisy_table(12, 0), Settings(epochs=20)).validation is None


def test_a_method_that_failed_says_so(monkeypatch):
    """The broken twin of variational inference: its first standard deviations drown what was learned."""
    monkeypatch.setattr(recipes, "FIRST_SCALE", 30.0)
    monkeypatch.setattr(recipes, "VARIATIONAL_STEPS", 2)
    x, y = sloping()
    result = learned("vi", x, y, Settings(epochs=30, learning_rate=0.5))
    assert any("it failed on this table, use the ensemble" in note for note in result.posterior.notes)


def test_few_rows_are_not_held_out():
    x, y = noisy_table(12, 0)
    result = learned("ensemble", x, y, Settings())
    assert result.validation is None
    assert result.posterior.members().members == 10


def test_large_tables_share_one_held_out_part(monkeypatch):
    """Five copies of a large table do not fit: then all members hold out the same tenth."""
    x, y = noisy_table(200, 0)
    monkeypatch.setattr(validation, "LARGEST_COPY", 100)
    result = learned("ensemble", x, y, Settings(epochs=30))
    assert result.posterior.record.size == 180
    assert result.validation is not None
    assert result.posterior.members().members == 10


def test_a_method_of_the_user_is_run_as_it_is():
    x, y = noisy_table(50, 0)
    method = credo.DeepEnsemble(3, epochs=4)
    recipe = recipe_of(method, Settings())
    model = table_model(10, 2, likelihoods.HeteroscedasticGaussian(), recipe, (8,), "tanh")
    result = learn(model, x, y, recipe, seed=1)
    assert result.posterior.record.size == 50
    assert len(result.posterior.history) == 4
    assert (result.epochs, result.validation) == (None, None)


def test_classes_are_held_out_in_proportion():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(103, 3, generator=generator), (torch.arange(103) % 10 == 0).long()
    held = validation.hold_out(x, y, 5, seed=0)
    assert held.batch.y.sum(1).min() >= 2
    assert held.batch.y.sum(1).max() <= 3


def test_validations():
    assert list(training._validations(3, 10)) == [3, 4, 5, 6, 8, 10]
    assert list(training._validations(50, 10)) == [10]
    assert list(training._validations(1, 1)) == [1]


def test_settings():
    assert Settings().batch(10) == 10
    assert [Settings().batch(rows) for rows in (1000, 10_000, 100_000)] == [64, 128, 256]
    assert Settings().limit(100) == 1000
    assert Settings().limit(10_000_000) == 10
    assert Settings(epochs=7).limit(100) == 7
    for wrong in ({"members": 0}, {"epochs": 0}, {"batch_size": 0}):
        with pytest.raises(ValueError, match="must be a whole number of at least 1"):
            Settings(**wrong)
    with pytest.raises(ValueError, match="method must be one of ensemble"):
        recipe_of("forest", Settings())
