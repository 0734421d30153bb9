"""Acting or asking by expected costs, and thresholds whose promise holds for models that are sure and wrong."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

import credo
from credo.decide import AbstainPolicy, CostMatrix, Costs, FixedSequence, GuaranteedRisk, Misses, Mistakes
from credo.likelihoods import Bernoulli, Categorical, Gaussian
from credo.predictive import Predictive, predictive

REPEATS, ALARM, ERROR = 100, 1e-6, 0.1
MOST = int(stats.binom.ppf(1.0 - ALARM, REPEATS, ERROR))
"""Broken promises of so many tables; more would come with a probability of ALARM."""
SICK = CostMatrix(((0.0, 5.0), (1.0, 0.0)))
"""To send a sick patient (class 1) home costs five times as much as to keep a healthy one."""


def classes(probs: Tensor) -> Predictive:
    """A prediction by one draw, from probabilities (B, K)."""
    return predictive(Categorical(), probs.double().log().unsqueeze(0), {}, torch.zeros(1))


def test_the_action_is_that_of_least_expected_cost() -> None:
    probs = torch.tensor([[0.97, 0.03], [0.90, 0.10], [0.05, 0.95]])
    decisions = AbstainPolicy(asking=0.3, costs=SICK).decide(classes(probs))
    assert decisions.action.tolist() == [0, 0, 1]
    assert decisions.expected_cost.tolist() == pytest.approx([0.15, 0.5, 0.05], rel=1e-6)  # float32 probabilities
    assert decisions.asks.tolist() == [False, True, False]
    assert SICK.incurred(decisions.action, torch.tensor([1, 1, 0])).tolist() == [5.0, 5.0, 1.0]


def test_an_action_that_costs_as_much_as_asking_is_taken() -> None:
    """Single-precision probabilities do not add up to one, and must not decide."""
    logits = 0.1 * credo.Stream(0).normal(1, 200, 3)
    prediction = predictive(Categorical(), logits, {}, torch.zeros(1))
    safe = CostMatrix(((0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 0.0), (0.2, 0.2, 0.2)))
    decisions = AbstainPolicy(asking=0.2, costs=safe).decide(prediction)
    assert decisions.action.tolist() == [3] * 200
    assert not bool(decisions.asks.any())


def test_mistakes_are_the_matrix_of_zeros_and_ones() -> None:
    probs = credo.Stream(0).normal(50, 3).softmax(1)
    matrix = CostMatrix(1.0 - torch.eye(3))
    for one, other in zip(Mistakes().best(classes(probs)), matrix.best(classes(probs)), strict=True):
        torch.testing.assert_close(one, other)


def test_yes_and_no_are_two_classes() -> None:
    prediction = predictive(Bernoulli(), torch.tensor([[[-2.0], [3.0]]]), {}, torch.zeros(1))
    action, cost = Mistakes().best(prediction)
    assert action.tolist() == [0, 1]
    assert cost.tolist() == pytest.approx([1 / (1 + math.exp(2)), 1 / (1 + math.exp(3))], rel=1e-6)  # float32


def test_misses_are_the_mass_beyond_the_tolerance() -> None:
    draws = torch.tensor([[[0.0]], [[2.0]]], dtype=torch.float64)
    prediction = predictive(Gaussian(0.5), draws, {}, torch.zeros(2))
    action, cost = Misses(tolerance=1.5).best(prediction)
    inside = 0.5 * sum(stats.norm(m, 0.5).cdf(2.5) - stats.norm(m, 0.5).cdf(-0.5) for m in (0.0, 2.0))
    assert (float(action), float(cost)) == (1.0, pytest.approx(1.0 - inside))
    assert Misses(1.5).incurred(action, torch.tensor([[2.6]])).tolist() == [1.0]


def overconfident(rows: int, rng: credo.Stream) -> tuple[Predictive, Tensor]:
    """Probabilities of two classes, and labels by others: whoever says 5 % of doubt is wrong in 10 %."""
    stated = 0.4 * torch.rand(rows, generator=rng.child("doubt").generator(), dtype=torch.float64)
    first = torch.rand(rows, generator=rng.child("class").generator()) < 0.5
    wrong = torch.rand(rows, generator=rng.child("wrong").generator(), dtype=torch.float64) < 2.0 * stated
    probs = torch.where(first, 1.0 - stated, stated)
    return classes(torch.stack([probs, 1.0 - probs], 1)), (first == wrong).long()


def true_risk(policy: AbstainPolicy) -> float:
    """Mean cost of what is decided, over many rows."""
    prediction, y = MANY
    decisions = policy.decide(prediction)
    cost = policy.costs.incurred(decisions.action, y)[~decisions.asks]
    return float(cost.mean()) if len(cost) else 0.0


MANY = overconfident(100_000, credo.Stream(99))


@pytest.mark.parametrize("rule", [FixedSequence(), GuaranteedRisk()], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize(
    ("costs", "risk", "rows"), [(Mistakes(), 0.2, 400), (SICK, 0.45, 2000)], ids=["mistakes", "matrix"]
)
def test_the_promise_holds_for_a_model_that_is_surer_than_right(
    rule: FixedSequence, costs: Costs, risk: float, rows: int
) -> None:
    broken = decided = 0
    for repeat in range(REPEATS):
        prediction, y = overconfident(rows, credo.Stream(repeat))
        policy = AbstainPolicy.for_risk(prediction, y, risk, error=ERROR, costs=costs, rule=rule)
        broken += true_risk(policy) > risk
        decided += policy.promise is not None and policy.promise.is_kept
    assert broken <= MOST
    assert decided > REPEATS / 3
    # the twin takes the model at its word: act as long as the mean of the stated costs is what is wanted
    cost = costs.best(MANY[0])[1].sort().values
    stated = cost.cumsum(0) / torch.arange(1, len(cost) + 1)
    assert true_risk(AbstainPolicy(float(cost[stated <= risk][-1]), costs)) > risk


def test_what_cannot_be_promised_is_refused_with_a_number_of_rows() -> None:
    prediction, y = overconfident(40, credo.Stream(0))
    policy = AbstainPolicy.for_risk(prediction, y, 0.02)
    assert policy.decide(prediction).asks.all()
    assert policy.promise is not None
    assert policy.promise.rows_that_would_do is not None
    assert policy.promise.rows_that_would_do >= 114  # so many without any mistake
    assert "like them or more" in str(policy.promise)
    never = AbstainPolicy.for_risk(prediction, y, 0.0)
    assert "however many rows" in str(never.promise)


def test_a_promise_says_where_it_ends() -> None:
    prediction, y = overconfident(3000, credo.Stream(1))
    policy = AbstainPolicy.for_risk(prediction, y, 0.1)
    asks = policy.decide(prediction).asks
    assert policy.promise is not None
    assert policy.promise.decided == pytest.approx(float((~asks).double().mean()))
    assert "at most 10 % of the decisions are wrong" in str(policy.promise)
    assert "where the data change, the promise ends" in str(policy.promise)


def test_what_is_no_number_is_asked() -> None:
    probs = torch.full((200, 2), 0.5)
    probs[:100], probs[0] = torch.tensor([0.999, 0.001]), math.nan
    policy = AbstainPolicy.for_risk(classes(probs), torch.zeros(200).long(), 0.05)
    asks = policy.decide(classes(probs)).asks
    assert asks[0]
    assert not asks[1:100].any()


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (torch.zeros(2), "a row for each action and a column for each class"),
        (torch.zeros(0, 2), "a row for each action"),
        ([[0.0, -1.0]], "negative or not finite"),
        ([[0.0, math.inf]], "negative or not finite"),
        ([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]], "2 x 3"),
    ],
)
def test_costs_that_do_not_fit_are_refused(matrix: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        AbstainPolicy(0.1, CostMatrix(matrix)).decide(classes(torch.tensor([[0.3, 0.7]])))


@pytest.mark.parametrize(
    ("y", "risk", "sentence"),
    [
        ([0, 1, 0], 0.1, "predictions of 2 rows"),
        ([0.0, math.nan], 0.1, "NaN"),
        ([0.5, 0.0], 0.1, "fractions"),
        ([-1, 0], 0.1, "class numbers"),
        ([0, 1], 1.0, "below 1, the largest cost"),
        ([0, 1], -0.1, "at least 0"),
    ],
)
def test_held_out_rows_that_do_not_fit_are_refused(y: object, risk: float, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        AbstainPolicy.for_risk(classes(torch.tensor([[0.3, 0.7], [0.6, 0.4]])), y, risk)


def test_costs_of_another_kind_of_prediction_are_refused() -> None:
    numbers = predictive(Gaussian(1.0), torch.zeros(1, 2, 1), {}, torch.zeros(1))
    with pytest.raises(TypeError, match=r"Misses\(tolerance\)"):
        Mistakes().best(numbers)
    with pytest.raises(TypeError, match=r"Mistakes\(\)"):
        Misses(1.0).best(classes(torch.tensor([[0.3, 0.7]])))
    several = predictive(Bernoulli(), torch.zeros(1, 2, 3), {}, torch.zeros(1))
    with pytest.raises(TypeError, match="yes-or-no"):
        Mistakes().best(several)
    with pytest.raises(ValueError, match="asking"):
        AbstainPolicy(math.nan)
