"""The protocol of the UCI tables, and both methods on data small enough for a test."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from credo import likelihoods
from credo.data import Task
from credo.data.sets import DataSet
from credo.data.splits import Split
from credo.experiments import uci
from credo.experiments.base import Progress, Size, Verdict, judge
from credo.experiments.uci import measure
from credo.experiments.uci.problem import splits_of
from credo.experiments.uci.scores import SplitScores, mean_and_error
from credo.predictive import predictive


def small_set(splits: int = 3) -> DataSet:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 3)) * [1.0, 50.0, 1e-3] + [0.0, 7.0, 2.0]
    x[:, 2] = 4.0  # a constant column, as naval has
    y = 100.0 + 30.0 * x[:, 0] + random.normal(size=60)
    order = [random.permutation(60) for _ in range(splits)]
    cut = tuple(Split(train=p[:50], validation=p[:0], test=p[50:]) for p in order)
    return DataSet("small", Task.REGRESSION, x, y, splits=cut)


def test_each_split_is_standardized_by_its_own_training_rows() -> None:
    data = small_set()
    splits = splits_of(data)
    assert splits.x.shape == (3, 50, 3)
    assert splits.x_test.shape == (3, 10, 3)
    torch.testing.assert_close(splits.x.mean(1), torch.zeros(3, 3), rtol=0, atol=1e-5)  # float32
    torch.testing.assert_close(splits.x.std(1, correction=0)[:, :2], torch.ones(3, 2), rtol=0, atol=1e-5)  # float32
    assert bool((splits.x[..., 2] == 0).all())
    train = data.y[np.asarray(data.splits[1].train)]
    assert float(splits.unit[1]) == pytest.approx(train.std(), rel=1e-12)
    test = data.y[np.asarray(data.splits[1].test)]
    np.testing.assert_allclose(splits.y_test[1] * splits.unit[1] + train.mean(), test, rtol=1e-5)  # float32


def test_validation_rows_come_out_of_the_training_rows() -> None:
    splits = splits_of(small_set())
    inner = splits.held_out(0.2)
    torch.testing.assert_close(torch.cat([inner.x, inner.x_test], 1), splits.x)
    assert inner.x_test.shape[1] == 10


def test_scores_are_in_the_units_of_the_target() -> None:
    splits = splits_of(small_set())
    mean = torch.zeros(1, 10, 1)
    flat = [predictive(likelihoods.Gaussian(1.0), mean, {}, torch.zeros(1)) for _ in range(3)]
    scores = SplitScores.of(flat, splits, 0.0)
    by_hand = (splits.y_test[0].double() * splits.unit[0]).square().mean().sqrt()
    assert scores.rmse[0] == pytest.approx(float(by_hand), rel=1e-5)  # float32
    normal = torch.distributions.Normal(0.0, splits.unit[0])
    by_hand = normal.log_prob(splits.y_test[0].double() * splits.unit[0]).mean()
    assert scores.log_likelihood[0] == pytest.approx(float(by_hand), rel=1e-5)  # float32
    twin = flat[0].log_prob(splits.y_test[0]).mean()  # forgets the change of units
    assert abs(float(twin) - float(by_hand)) > 1.0


def test_the_standard_error_is_that_of_a_mean() -> None:
    mean, error = mean_and_error([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5
    assert error == pytest.approx(np.std([1, 2, 3, 4], ddof=1) / 2)


@pytest.mark.parametrize("method", measure.METHODS)
def test_a_method_learns_the_line_on_every_split_at_once(method: str) -> None:
    splits = splits_of(small_set())
    scores = measure.METHODS[method]("small", splits, 0, lambda report: None)
    assert len(scores.rmse) == 3
    assert max(scores.rmse) < 12.0  # the target's standard deviation is about 30, the noise's 1
    worst = -math.log(30 * math.sqrt(2 * math.pi * math.e))  # of a normal that knows mean and spread and nothing else
    assert min(scores.log_likelihood) > worst


def test_members_with_their_own_data_are_separate_runs() -> None:
    """What split 2 learns beside the others does not depend on their data."""
    splits, doctored = splits_of(small_set()), splits_of(small_set())
    doctored.x[0].zero_()  # ruin another split's data
    together, beside = (
        SplitScores.of(measure.ensemble_predictions("small", s, 0.03, 0, lambda report: None), s, 0.0)
        for s in (splits, doctored)
    )
    torch.testing.assert_close(torch.tensor(together.rmse[1:]), torch.tensor(beside.rmse[1:]))
    assert beside.rmse[0] > 2 * together.rmse[0]


def test_the_best_candidate_is_the_one_with_the_best_mean_and_only_numbers() -> None:
    assert measure.best(torch.tensor([[1.0, 2.0], [3.0, 4.0], [9.0, -9.0]])) == 1
    assert measure.best(torch.tensor([[-1.0, -2.0], [math.nan, 4.0], [math.inf, 0.0]])) == 0


def test_generalization_is_judged_on_sets_that_have_both() -> None:
    def scores(rmse: float, fit: float) -> SplitScores:
        return SplitScores([rmse, rmse], [fit, fit], 0.0)

    found = {("a", measure.CLOUD): scores(1.0, -1.0), ("a", measure.POINT): scores(2.0, -1.5)}
    alone = {("b", measure.CLOUD): scores(50.0, -9.0)}
    other = {("c", measure.CLOUD): scores(8.0, -2.0), ("c", measure.POINT): scores(1.0, -1.0)}
    assert measure.generalization(alone) == {}
    both = measure.generalization({**found, **alone, **other})
    assert both["generalization.rmse"] == pytest.approx(2.0)  # the root of a half times eight
    assert both["generalization.log-likelihood"] == pytest.approx(-0.25)


def test_what_is_not_at_hand_is_said_and_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDO_DATA", str(tmp_path))
    outcome = uci.run(Size.QUICK, tmp_path, 0, Progress())
    judged = judge(uci.EXPERIMENT.card.claims, outcome)
    assert {j.verdict for j in judged} == {Verdict.NOT_MEASURED}
    assert len(judged) == 56
    assert all(j.reason for j in judged)


@pytest.mark.skipif("CREDO_DATA" not in os.environ, reason="CREDO_DATA does not name a folder with the UCI sets")
def test_yacht_agrees_with_the_published_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uci, "QUICK", ("yacht",))
    monkeypatch.setattr(measure, "DROPOUT_RATES", (0.02,))
    outcome = uci.run(Size.QUICK, tmp_path, 0, Progress())
    judged = [j for j in judge(uci.EXPERIMENT.card.claims, outcome) if j.measured is not None]
    differ = {j.claim.id for j in judged if j.verdict is not Verdict.AGREES}
    assert differ <= {"generalization.rmse", "generalization.log-likelihood"}  # on this set alone they may
    assert len(judged) == 8
    assert (tmp_path / "uci.png").stat().st_size > 10_000
    monkeypatch.setattr(measure, "METHODS", dict.fromkeys(measure.METHODS))  # nobody trains a second time
    assert uci.run(Size.QUICK, tmp_path, 0, Progress()).measured == outcome.measured
    with pytest.raises(TypeError):  # but for another seed
        uci.run(Size.QUICK, tmp_path, 1, Progress())


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
def test_a_learning_rate_at_which_runs_diverge_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that diverge leave the posterior: the others must not be taken for them."""
    splits, rates = splits_of(small_set()), (1e-3, 3e-3)
    fit, tried = measure.credo.fit, []

    def some_diverge(*arguments, **options):  # type: ignore[no-untyped-def]
        tried.append(fit(*arguments, **options))
        return tried[-1].of_members(torch.arange(1, tried[-1].members().members)) if len(tried) == 1 else tried[-1]

    monkeypatch.setattr(measure, "ENSEMBLE_RATES", rates)
    monkeypatch.setattr(measure, "ENSEMBLE_EPOCHS", 2)
    monkeypatch.setattr(measure, "hidden", lambda name: (3,))
    monkeypatch.setattr(measure.credo, "fit", some_diverge)
    scores = measure.deep_ensemble("small", splits, 0, lambda report: None)
    assert all(map(math.isfinite, scores.rmse))
    monkeypatch.setattr(measure.credo, "fit", fit)
    wanted = measure.ensemble_predictions("small", splits, rates[1], 0, lambda r: None)
    assert scores.rmse == SplitScores.of(wanted, splits, 0.0).rmse
