"""What held-out rows say beyond the scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from credo.data.encoder import Encoder
from credo.data.problem import pose
from credo.data.reading import table_of
from credo.evaluation.baselines import LINEAR, TREES, baseline_answers
from credo.evaluation.class_scores import class_scores, finds_every_class
from credo.evaluation.columns import ColumnProbe, effects, importances, residuals
from credo.evaluation.strange_rows import ALL, CATEGORY, ONE, ORDINARY, SHUFFLED, knows_unknowns, strange_rows
from credo.evaluation.table_values import StrangeRows
from credo.evaluation.values import Evaluation
from credo.likelihoods import Categorical, Gaussian
from credo.predictive import Predictive, predictive
from credo.tabular import TableRun, fit_table

ROWS = 400
SLOPES = torch.tensor([[2.0, 0.0], [2.6, 0.0], [1.4, 0.0]], dtype=torch.float64)
"""Of three drawn functions, for a column that matters and one that does not; 2 on average."""


def lines(x: torch.Tensor) -> Predictive:
    """Three straight lines, whose noise is one."""
    draws = (x.double()[None, :, :2] * SLOPES[:, None]).sum(-1, keepdim=True)
    return predictive(Gaussian(scale=1.0), draws, {}, torch.zeros(3, dtype=torch.float64))


def probe(rows: int = ROWS, seed: int = 0) -> tuple[ColumnProbe, pd.DataFrame]:
    """Rows of a linear truth: y = 2 x + noise, in units of x's standard deviation."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=rows), "useless": rng.normal(size=rows)})
    encoder = Encoder.fit(pose(table_of(frame.assign(y=np.arange(rows) / 7.0), "table"), "y"))
    y = 2.0 * encoder.encode(frame).x[:, 0].double() + torch.from_numpy(rng.normal(size=rows))
    return ColumnProbe(lines, encoder, frame, y), frame


def test_the_importance_of_a_column_is_what_shuffling_it_costs() -> None:
    """Shuffled, x and its twin differ by a variance of 2: the squared error rises from 1 by 2^2 x 2."""
    case, _ = probe(rows=1000)
    first, second = importances(case)
    assert (first.column, second.column) == ("x", "useless")
    # of 1000 rows; three standard errors
    assert first.rise == pytest.approx(3.0 - 1.0, abs=3 * first.error + 0.1)
    assert second.rise == 0.0


def test_a_column_that_adds_noise_alone_is_unimportant_within_its_error() -> None:
    """Over forty tables: two standard errors are exceeded in few of them."""
    noisy = torch.tensor([[2.0, 0.15]], dtype=torch.float64)

    def with_noise(x: torch.Tensor) -> Predictive:
        draws = (x.double()[None, :, :2] * noisy[:, None]).sum(-1, keepdim=True)
        return predictive(Gaussian(scale=1.0), draws, {}, torch.zeros(1, dtype=torch.float64))

    scores = []
    for seed in range(40):
        case, _ = probe(rows=200, seed=seed)
        found = {one.column: one for one in importances(replace(case, predict=with_noise, seed=seed))}
        scores.append(found["useless"].rise / found["useless"].error)
    assert np.abs(np.mean(scores)) < 0.7  # three standard errors of the mean of forty, and a bit for their skewness
    assert np.mean(np.abs(scores) > 2.0) < 0.25


def test_partial_dependence_of_a_linear_truth_is_linear_with_the_band_of_its_slopes() -> None:
    case, frame = probe()
    (effect,) = effects(case, ["x"], frame)
    values, mean, spread = map(np.asarray, (effect.values, effect.mean, effect.spread))
    scaled = (values - frame["x"].mean()) / frame["x"].std(ddof=0)
    slopes = SLOPES[:, 0].numpy()
    # inputs are float32
    np.testing.assert_allclose(mean, slopes.mean() * scaled, atol=1e-5)
    np.testing.assert_allclose(spread, slopes.std() * np.abs(scaled), atol=1e-5)
    (flat,) = effects(case, ["useless"], frame)
    assert np.ptp(flat.mean) < 1e-6


def test_partial_dependence_on_categories_and_dates() -> None:
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 100), unit="D")
    frame = pd.DataFrame({"town": rng.choice(["a", "b", "c"], 100), "day": day})
    encoder = Encoder.fit(pose(table_of(frame.assign(y=np.arange(100) / 7.0), "table"), "y"))

    def of_first_town(x: torch.Tensor) -> Predictive:
        return predictive(Gaussian(scale=1.0), 3.0 * x.double()[None, :, :1], {}, torch.zeros(1, dtype=torch.float64))

    case = ColumnProbe(of_first_town, encoder, frame, torch.zeros(100))
    town, when = effects(case, ["town", "day"], frame)
    largest = frame["town"].value_counts().index[0]
    expected = {word: 3.0 * (word == largest) for word in "abc"}
    assert dict(zip(town.words, town.mean, strict=True)) == pytest.approx(expected)
    assert len(when.words) == len(when.values) > 10
    assert when.words[0].startswith("2024-01")


def test_residuals_show_where_a_column_is_misread() -> None:
    """A model that misses a bend is too low at both ends and too high in the middle."""
    case, frame = probe()
    x = torch.tensor(frame["x"].to_numpy(copy=True))
    error = x.square() - x.square().mean()
    (found,) = residuals(case, ["x"], error, error.square())
    assert len(found.groups) == 5
    assert sum(found.rows) == ROWS
    assert found.mean[0] > 3 * found.error[0]
    assert found.mean[2] < -3 * found.error[2]
    assert float(np.dot(found.mean, found.rows)) == pytest.approx(0.0, abs=1e-9)


def test_baselines_are_those_of_scikit_learn() -> None:
    """Numbers without gaps: the same trees, and nearly the same line, for its penalty is chosen and not zero."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    y = np.asarray(frame["a"] - 2.0 * frame["b"] + 0.1 * rng.normal(size=300))
    encoder = Encoder.fit(pose(table_of(frame.assign(y=y), "table"), "y"))
    found = {one.title: one for one in baseline_answers(encoder.inputs, frame[:200], y[:200], frame[200:], seed=1)}
    scaled = (frame - frame.mean()) / frame.std(ddof=0)
    trees = HistGradientBoostingRegressor(random_state=1).fit(scaled[:200].to_numpy(), y[:200])
    np.testing.assert_allclose(found[TREES].answers, trees.predict(scaled[200:].to_numpy()), atol=1e-9)
    line = LinearRegression().fit(frame[:200], y[:200]).predict(frame[200:])
    np.testing.assert_allclose(found[LINEAR].answers, line, atol=0.02)


def test_baselines_read_categories_gaps_and_new_words() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"n": rng.normal(size=200), "w": rng.choice(["a", "b"], 200)})
    frame.loc[:20, "n"] = np.nan
    frame.loc[30:40, "w"] = None
    kind = (frame["w"] == "a").to_numpy().astype(int)
    encoder = Encoder.fit(pose(table_of(frame.assign(y=kind), "table"), "y"))
    new = pd.DataFrame({"n": [0.0, np.nan, 1e9], "w": ["a", "b", "never seen"]})
    for one in baseline_answers(encoder.inputs, frame, kind, new, classes=2, weights=rng.random(200)):
        assert one.answers.shape == (3, 2)
        np.testing.assert_allclose(one.answers.sum(1), 1.0)
        assert one.answers[:2].argmax(1).tolist() == [1, 0]
    alone = baseline_answers(encoder.inputs, frame, np.ones(200, dtype=int), new, classes=2)
    assert all(one.answers[:, 1].tolist() == [1.0] * 3 for one in alone)


PROBS = torch.tensor([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.9, 0.1]])


def test_classes_one_by_one() -> None:
    first, second = class_scores(PROBS, torch.tensor([0, 0, 1, 1]), ("no", "yes"))
    assert (first.rows, first.answers, first.recall, first.precision) == (2, 3, 1.0, 2 / 3)
    assert (second.rows, second.answers, second.recall, second.precision) == (2, 1, 0.5, 1.0)
    # the probabilities are float32
    assert second.brier == pytest.approx(((0.3**2 + 0.3**2) + (0.9**2 + 0.9**2)) / 2, abs=1e-6)
    assert second.log_likelihood == pytest.approx((np.log(0.7) + np.log(0.1)) / 2, abs=1e-6)
    absent = class_scores(PROBS, torch.zeros(4), ("no", "yes"))[1]
    assert (absent.recall, absent.brier, absent.log_likelihood) == (None, None, None)


def test_a_rare_class_that_is_never_found_is_told_though_most_answers_are_right() -> None:
    y = torch.cat([torch.zeros(190), torch.ones(10)]).long()
    blind = torch.tensor([0.95, 0.05]).expand(200, 2)
    check = finds_every_class(class_scores(blind, y, ("no", "yes")))
    assert (check.rating, "0\u00a0% of the 10 rows of 'yes'" in check.answer) == ("fair", True)
    seeing = torch.nn.functional.one_hot(y, 2) * 0.9 + 0.05
    assert finds_every_class(class_scores(seeing, y, ("no", "yes"))).rating == "good"
    few = finds_every_class(class_scores(seeing[:192], y[:192], ("no", "yes")))
    assert (few.rating, "fewer than 5" in few.answer) == ("fair", True)


def test_strange_rows_are_as_strange_as_they_say(whole: pd.DataFrame) -> None:
    frame = whole[["x", "z", "color"]]
    encoder = Encoder.fit(pose(table_of(whole.drop(columns="kind"), "table"), "y"))
    made = strange_rows(frame.head(100), frame, encoder.inputs, 0)
    assert set(made) == {ALL, ONE, SHUFFLED, CATEGORY}
    sd = frame["z"].std(ddof=0)
    np.testing.assert_allclose(made[ALL]["z"] - frame["z"].head(100), 3 * sd)
    outside = made[ONE][["x", "z"]].apply(lambda c: (c > frame[c.name].max()) | (c < frame[c.name].min()))
    assert (outside.sum(axis=1) == 1).all()
    assert sorted(made[SHUFFLED]["z"]) == sorted(frame["z"].head(100))
    assert (made[SHUFFLED]["z"] != frame["z"].head(100)).mean() > 0.9
    assert set(made[CATEGORY]["color"]) & set(frame["color"]) == set()


def verdict(every: float, one: float, usual: float | None = 0.01) -> tuple[str, str]:
    flags = {ORDINARY: usual, ALL: every, ONE: one}
    found = [StrangeRows(name, "", 100, None if usual is None else rate, 2.0, True) for name, rate in flags.items()]
    check = knows_unknowns(found)
    return check.rating, check.answer


def test_the_alarm_is_judged_by_what_it_finds() -> None:
    assert verdict(0.97, 0.8)[0] == "good"
    assert verdict(0.6, 0.4)[0] == "fair"
    rating, answer = verdict(0.01, 0.02)
    assert (rating, "2\u00a0%" in answer) == ("poor", True)
    assert verdict(0.0, 0.0, None)[0] == "fair"


def test_a_run_has_all_of_it_and_says_it(numbers: TableRun, classes: TableRun, single: TableRun) -> None:
    for run in (numbers, classes, single):
        found, asked = run.evaluation.findings, [check.question for check in run.evaluation.checks]
        assert len(asked) == len(set(asked)) == (9 if run.evaluation.classes else 8)
        assert {one.title for one in found.baselines} == {TREES, LINEAR}
        assert [one.column for one in found.importance][:1] == ["x"]
        assert {one.column for one in found.effects} == {"x", "z", "color"}
        assert {one.name for one in found.probes} == {ORDINARY, ALL, ONE, SHUFFLED, CATEGORY}
        assert bool(found.classes) == bool(run.evaluation.classes)
    assert single.evaluation.findings.probes[0].flagged == 0.0  # by the distance to the training rows


def test_an_evaluation_of_an_older_version_can_be_read(numbers: TableRun) -> None:
    data = numbers.evaluation.to_json()
    del data["findings"]
    for score in data["scores"]:
        del score["error"]
    for row in data["doubtful"]:
        del row["unfamiliar"]
    old = Evaluation.from_json(data)
    assert old.findings.baselines == ()
    assert old.scores[0].error is None


def test_a_copy_of_the_target_is_told_before_and_after_training(whole: pd.DataFrame) -> None:
    seen = []
    run = fit_table(whole.assign(twice=2 * whole["y"]), "y", drop=["kind"], epochs=2, on_loaded=seen.append)
    assert [leak.column for leak in seen[0].leaks] == ["twice"]
    (check,) = [each for each in run.evaluation.checks if "new rows" in each.question]
    assert (check.rating, "--drop twice" in check.answer) == ("poor", True)
    assert any("--drop twice" in note for note in run.metadata.notes)


def test_copies_of_a_row_are_on_one_side(whole: pd.DataFrame) -> None:
    frame = pd.concat([whole, whole.head(100)], ignore_index=True)
    run = fit_table(frame, "y", drop=["kind"], epochs=2)
    held = set(run.predictions["row"] - 1)
    assert all((row in held) == (row + 400 in held) for row in range(100))
    assert any("100 of 500 rows repeat another one" in note for note in run.metadata.notes)


def test_a_fit_that_collapsed_is_poor(whole: pd.DataFrame) -> None:
    """A table of noise cannot be learned, and a posterior that is worse than guessing did not train well."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200), "y": rng.standard_t(2, size=200)})
    run = fit_table(frame, "y", epochs=300, method="vi")
    ratings = {check.question: check.rating for check in run.evaluation.checks}
    guessing = ratings["Does it beat guessing?"]
    assert guessing != "good"
    order = ["good", "fair", "poor"]
    assert order.index(ratings["Did training go well?"]) >= order.index(guessing)


def test_classes_are_judged_by_their_probabilities() -> None:
    """A rare class: the label is never it, and the probabilities know where it is likelier."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    rare = rng.random(2000) < 0.35 / (1 + np.exp(-3 * (x - 1.2)))
    run = fit_table(pd.DataFrame({"x": x, "y": np.where(rare, "ill", "well")}), "y", epochs=20, method="map")
    check = next(each for each in run.evaluation.checks if each.question == "Does it beat guessing?")
    accuracy = run.evaluation.score("accuracy")
    assert accuracy.model == accuracy.naive  # which alone would say that nothing was learned
    assert check.rating == "good"


def test_the_likelihood_of_class_draws_has_means() -> None:
    """What partial dependence takes for the functions of a class are their probabilities."""
    draws = torch.randn(2, 3, 4, dtype=torch.float64)
    found = predictive(Categorical(), draws, {}, torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close(found.likelihood.mean(found.draws, found.params), draws.softmax(-1))
