"""The two bandit experiments and that of abstaining, in small."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import credo
from credo.decide import BanditAgent, LinearBelief, MushroomGame, Refits, WheelGame
from credo.experiments import abstain, bandit_mushroom, bandit_wheel
from credo.experiments.abstain import measure as abstaining
from credo.experiments.abstain.problem import ERRORS, RISK, SETTINGS, AbstainSettings, Garments
from credo.experiments.bandit_mushroom import problem as mushrooms
from credo.experiments.bandit_mushroom.measure import UNIFORM, numbers, share
from credo.experiments.bandit_wheel import problem as wheel
from credo.experiments.bandits import BanditResult, log_spaced, trials
from credo.experiments.base import Outcome, Progress, Size, Verdict, judge

FEW = Refits(every=50, growth=0.5, rows=256)
"""Four steps of a network at a time."""


def mushroom_game() -> MushroomGame:
    """Mushrooms of which one attribute tells nearly all."""
    rng = credo.Stream(0)
    poisonous = torch.rand(500, generator=rng.generator()) < 0.482
    x = torch.cat([poisonous.float().unsqueeze(1), rng.child("x").normal(500, 5)], 1)
    return MushroomGame(x, poisonous)


def check(outcome: Outcome, claims: tuple, folder: Path) -> dict[str, Verdict]:
    for figure in outcome.figures:
        assert (folder / figure.path).stat().st_size > 10_000
    return {each.claim.id: each.verdict for each in judge(claims, outcome)}


def test_the_mushroom_experiment_plays_stores_and_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandit_mushroom, "game", mushroom_game)
    monkeypatch.setattr(mushrooms, "SHORT", 200)
    monkeypatch.setattr(mushrooms, "REFITS", FEW)
    outcome = bandit_mushroom.run(Size.QUICK, tmp_path, 0, Progress())
    verdicts = check(outcome, bandit_mushroom.EXPERIMENT.card.claims, tmp_path)
    assert verdicts["below.dropout"] is Verdict.NOT_MEASURED
    assert 0.0 < outcome.measured["showdown.linear"] < 100.0
    monkeypatch.setattr(bandit_mushroom, "trials", None)  # nobody plays a second time
    assert bandit_mushroom.run(Size.QUICK, tmp_path, 0, Progress()).measured == outcome.measured


def test_every_mushroom_agent_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mushrooms, "REFITS", FEW)
    game = mushroom_game()
    for row in mushrooms.rows(Size.FULL):
        result = trials(row.made(6, 0), game, 60, 0, 20, Progress(), "")
        assert len(result.regret) == row.trials
        assert row.settings(0)["agent"] == row.agent


def test_regret_in_per_cent_of_uniform_s() -> None:
    game, belief = mushroom_game(), LinearBelief(6, 2, agents=2)
    result = trials(BanditAgent(belief, credo.decide.UniformChoice()), game, 2000, 0, 50, Progress(), "")
    assert numbers({"uniform": result})["showdown.uniform"] == pytest.approx(100.0, abs=8.0)  # 4,000 rounds
    assert result.mean == pytest.approx(100.0, abs=6.0)  # likewise, of the very rounds
    assert pytest.approx(4.91, abs=0.01) == UNIFORM
    rounds = log_spaced(2000)
    assert rounds[0] == 1
    assert rounds[-1] == 2000


def test_regret_between_two_rounds_lies_on_a_line() -> None:
    result = BanditResult([1, 1000, 3000, 4000], [[0.0, 100.0, 300.0, 310.0]], [1.0], 0.0)
    for rounds, regret in ((2000, 200.0), (3000, 300.0), (9999, 310.0)):
        assert share(result, rounds) == pytest.approx([100.0 * regret / (UNIFORM * min(rounds, 4000))])


def test_claims_compare_with_the_best_of_the_greedy_agents() -> None:
    def result(last: float) -> BanditResult:
        return BanditResult([2000, 50_000], [[last / 2, last]], [1.0], 0.0)

    found = {"greedy": result(900.0), "1 % greedy": result(1000.0), "5 % greedy": result(2000.0)}
    found |= {"Bayes by Backprop": result(600.0), "dropout": result(1200.0)}
    measured = numbers(found)
    assert measured["below.Bayes by Backprop"] == pytest.approx(600 / 900)
    assert measured["below.dropout"] == pytest.approx(1200 / 900)


def test_the_wheel_experiment_plays_stores_and_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "ROUNDS", {Size.QUICK: 200, Size.FULL: 120})
    monkeypatch.setattr(wheel, "REFITS", FEW)
    outcome = bandit_wheel.run(Size.QUICK, tmp_path, 0, Progress())
    assert set(check(outcome, bandit_wheel.EXPERIMENT.card.claims, tmp_path).values()) == {Verdict.NOT_MEASURED}
    monkeypatch.setattr(wheel, "TRIALS", {Size.FULL: 2})
    outcome = bandit_wheel.run(Size.FULL, tmp_path, 0, Progress())
    verdicts = check(outcome, bandit_wheel.EXPERIMENT.card.claims, tmp_path)
    assert set(verdicts.values()) <= {Verdict.AGREES, Verdict.DIFFERS}
    assert len(outcome.measured) == 5


def test_the_wheel_s_uniform_agent_is_the_unit_of_regret() -> None:
    belief = LinearBelief(2, 5)
    result = trials(BanditAgent(belief, credo.decide.UniformChoice()), WheelGame(0.5), 3000, 0, 50, Progress(), "")
    assert result.relative[0] == pytest.approx(100.0, abs=3.0)  # 3,000 rounds
    assert math.isnan(result.spread)


def garments(settings: AbstainSettings) -> Garments:
    rng = credo.Stream(1)
    y = torch.randint(10, (3000,), generator=rng.child("y").generator())
    x = (0.5 + 0.1 * rng.child("x").normal(3000, 784)).clamp(0, 1)
    x[torch.arange(3000), y] += 0.35
    return Garments(x[:500], y[:500], x[500:], y[500:])


def test_the_abstain_experiment_splits_stores_and_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, Size.FULL, AbstainSettings(500, 800, 2, 2, 3, 4))
    monkeypatch.setattr(abstain, "garments", garments)
    outcome = abstain.run(Size.FULL, tmp_path, 0, Progress())
    verdicts = check(outcome, abstain.EXPERIMENT.card.claims, tmp_path)
    assert Verdict.NOT_MEASURED not in verdicts.values()
    assert verdicts["single.fixed-sequence.0.001"] is Verdict.AGREES
    monkeypatch.setattr(abstain, "measured", None)  # nobody trains a second time
    assert abstain.run(Size.FULL, tmp_path, 0, Progress()).measured == outcome.measured


def test_a_promise_is_broken_where_the_risk_is_larger() -> None:
    name = abstaining.key("fixed sequence", ERRORS[0])
    result = abstaining.AbstainResult({name: [0.0, RISK, 2 * RISK, 0.5]}, {}, [], [], 0.0)
    assert abstaining.broken(result, "fixed sequence", ERRORS[0]) == 50.0


def test_what_is_not_at_hand_is_said_and_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDO_DATA", str(tmp_path))
    for experiment in (bandit_mushroom, abstain):
        outcome = experiment.run(Size.QUICK, tmp_path, 0, Progress())
        assert set(check(outcome, experiment.EXPERIMENT.card.claims, tmp_path).values()) == {Verdict.NOT_MEASURED}
