"""Act, or leave the decision to a person: by what a mistake costs, and by what may be promised."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.core.checks import check_between, check_kind, check_positive
from credo.decide.guarantee import ERROR, FixedSequence, SelectionCurve, ThresholdRule, rows_that_would_do
from credo.predictive import ClassPredictive, NumericPredictive, Predictive


class Costs(ABC):
    """What actions cost, depending on what turns out to be true."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The most that one action can cost; the least is zero or more."""

    @abstractmethod
    def claim(self, risk: float) -> str:
        """That the mean cost among decided rows is no larger than this, in words."""

    @abstractmethod
    def best(self, prediction: Predictive) -> tuple[Tensor, Tensor]:
        """The action with the smallest expected cost under the posterior, and that cost, (B,) each."""

    @abstractmethod
    def incurred(self, action: Tensor, y: Tensor) -> Tensor:
        """What the actions cost, (B,), now that the targets are known."""


@dataclass(frozen=True)
class CostMatrix(Costs):
    """What each action costs in each class: rows are actions, columns are classes.

    E[cost of a] = sum_k p(y = k | x, data) cost[a, k]

    Args:
        matrix: (actions, K), finite and not negative.

    Examples:
        >>> costs = CostMatrix(((0.0, 100.0), (1.0, 0.0)))  # to send a sick patient home costs a hundred times as much
        >>> costs.actions, costs.classes, costs.largest
        (2, 2, 100.0)
    """

    matrix: Any

    def __post_init__(self) -> None:
        found = tensor(self.matrix, "matrix").double()
        if found.ndim != 2 or 0 in found.shape:
            raise ValueError(
                f"matrix has shape {tuple(found.shape)}: it must have a row for each action and a column for each class"
            )
        if not bool((found.isfinite() & (found >= 0)).all()):
            raise ValueError("matrix holds costs that are negative or not finite: a gain is a smaller cost")
        object.__setattr__(self, "matrix", tuple(tuple(row) for row in found.tolist()))

    @property
    def actions(self) -> int:
        return len(self.matrix)

    @property
    def classes(self) -> int:
        """K."""
        return len(self.matrix[0])

    @property
    def largest(self) -> float:
        return max(max(row) for row in self.matrix)

    def claim(self, risk: float) -> str:
        return f"decisions cost at most {risk:.4g} on average"

    def best(self, prediction: Predictive) -> tuple[Tensor, Tensor]:
        probs = _probabilities(prediction)
        if probs.shape[1] != self.classes:
            raise ValueError(
                f"the cost matrix is {self.actions} x {self.classes} (actions x classes), and the prediction has "
                f"{probs.shape[1]} classes"
            )
        cost, action = (probs @ torch.tensor(self.matrix, dtype=torch.float64).mT).min(-1)
        return action, cost

    def incurred(self, action: Tensor, y: Tensor) -> Tensor:
        return torch.tensor(self.matrix, dtype=torch.float64)[action, _class_numbers(y, self.classes)]


@dataclass(frozen=True)
class Mistakes(Costs):
    """A wrong class costs 1 and the right one nothing, so that the risk is the part of mistakes.

    The action is the most probable class, and its expected cost one minus the largest probability.
    """

    @property
    def largest(self) -> float:
        return 1.0

    def claim(self, risk: float) -> str:
        return f"at most {100 * risk:.4g} % of the decisions are wrong"

    def best(self, prediction: Predictive) -> tuple[Tensor, Tensor]:
        probability, action = _probabilities(prediction).max(-1)
        return action, 1.0 - probability

    def incurred(self, action: Tensor, y: Tensor) -> Tensor:
        return (action != _class_numbers(y, None)).double()


@dataclass(frozen=True)
class Misses(Costs):
    """For numbers: to be off by more than a tolerance costs 1. The action is the mean.

    E[cost] = P(|y - mean| > tolerance | x, data)

    Args:
        tolerance: in the units of y.
    """

    tolerance: float

    def __post_init__(self) -> None:
        check_positive("tolerance", self.tolerance)

    @property
    def largest(self) -> float:
        return 1.0

    def claim(self, risk: float) -> str:
        return f"at most {100 * risk:.4g} % of the decided rows are off by more than {self.tolerance:.4g}"

    def best(self, prediction: Predictive) -> tuple[Tensor, Tensor]:
        if not isinstance(prediction, NumericPredictive):
            raise TypeError("Misses(tolerance) is for numbers, and this prediction is of classes: use Mistakes()")
        mean = prediction.mean
        if mean.ndim != 2 or mean.shape[1] != 1:
            raise ValueError(f"the prediction has {tuple(mean.shape[1:])} targets for each row: decide one at a time")
        outside = prediction.cdf(mean - self.tolerance) + prediction.survival(mean + self.tolerance)
        return mean[:, 0], outside[:, 0].double().clamp(0.0, 1.0)

    def incurred(self, action: Tensor, y: Tensor) -> Tensor:
        return ((y.reshape(-1).to(action) - action).abs() > self.tolerance).double()


@dataclass(frozen=True, eq=False)
class Decisions:
    """What a policy says for B rows.

    Attributes:
        action: number of the action (for numbers the mean), (B,).
        expected_cost: its expected cost under the posterior, (B,).
        asks: whether the row is left to a person, (B,).
    """

    action: Tensor
    expected_cost: Tensor
    asks: Tensor


@dataclass(frozen=True)
class Promise:
    """What held-out rows can promise about the risk among decided rows; as text, a sentence.

    Attributes:
        claim: what is promised, in words.
        error: probability with which the promise may fail.
        rows: held-out rows.
        decided: part of them that would be decided; zero where nothing can be promised.
        rows_that_would_do: where nothing can be promised, about how many rows would be enough; None where more rows
            would not help.
        smallest: where nothing can be promised, the smallest part of mistakes that these rows can promise for any of
            them, in words; None where that is not known.
        out_of_fold: whether the rows are training rows, each as the networks predict it that were not trained on it: a
            weaker promise, since it belongs to these networks and not to all of them together.
    """

    claim: str
    error: float
    rows: int
    decided: float
    rows_that_would_do: int | None = None
    smallest: str | None = None
    out_of_fold: bool = False

    @staticmethod
    def of(curve: SelectionCurve, place: int | None, claim: str, risk: float, error: float) -> Promise:
        """What the rows up to a place on the curve can promise; None for no place."""
        if place is not None:
            return Promise(claim, error, curve.rows, curve.count[place] / curve.rows)
        would = rows_that_would_do(curve, risk, error)
        # a rule that tests often needs more rows than one test does
        return Promise(claim, error, curve.rows, 0.0, None if would is None else max(would, curve.rows + 1))

    @property
    def is_kept(self) -> bool:
        """Whether anything is promised at all."""
        return self.decided > 0.0

    def __str__(self) -> str:
        sure = f"with a probability of {100 * (1 - self.error):.4g} %"
        if self.is_kept and self.out_of_fold:
            return (
                f"{sure}, {self.claim}, for rows like {self.rows:,} training rows as the networks decide them that "
                f"were not trained on them ({self.decided:.0%} are decided); for all networks together, which decide "
                "here, this is no proof: the held-out rows are too few to promise it"
            )
        if self.is_kept:
            return (
                f"{sure}, {self.claim}, for rows like the {self.rows:,} held-out ones, of which {self.decided:.0%} are "
                "decided; where the data change, the promise ends"
            )
        refusal = f"all rows are left to a person: that {sure} {self.claim} cannot be promised"
        more = "" if self.smallest is None else f" (the smallest that they can promise is {self.smallest})"
        if self.rows_that_would_do is None:
            return f"{refusal}, however many rows like the {self.rows:,} are held out; accept more risk{more}"
        return (
            f"{refusal} by {self.rows:,} held-out rows; it takes about {self.rows_that_would_do:,} like them or more, "
            f"or a larger risk{more}"
        )


@dataclass(frozen=True)
class AbstainPolicy:
    """Act where the expected cost under the posterior is no larger than that of asking a person.

    act if min_a E[cost(a, y) | x, data] <= asking, otherwise ask

    Args:
        asking: what it costs to ask; minus infinity asks always.
        costs: of actions.
        promise: what is promised about the risk, where the threshold was chosen for one.

    Examples:
        >>> from credo.likelihoods import Categorical
        >>> from credo.predictive import predictive
        >>> probs = torch.tensor([[[0.9, 0.1], [0.6, 0.4]]])  # one draw, two rows, two classes
        >>> prediction = predictive(Categorical(), probs.log(), {}, torch.zeros(1))
        >>> AbstainPolicy(asking=0.2).decide(prediction).asks.tolist()
        [False, True]

    Reference: C. K. Chow, "On optimum recognition error and reject tradeoff", 1970,
        https://doi.org/10.1109/TIT.1970.1054406
    """

    asking: float
    costs: Costs = Mistakes()
    promise: Promise | None = None

    def __post_init__(self) -> None:
        check_kind("costs", self.costs, "Mistakes()", Costs)
        check_kind("asking", self.asking, "0.2", float)
        if math.isnan(self.asking):
            raise ValueError("asking must be a cost, got NaN")

    def decide(self, prediction: Predictive) -> Decisions:
        """What to do with each row."""
        action, cost = self.costs.best(prediction)
        # of equal costs one may come out a rounding error larger; where a cost is no number, ask
        return Decisions(action, cost, ~(cost <= self.asking + ROUNDING * self.costs.largest))

    @staticmethod
    def for_risk(
        prediction: Predictive,
        y: Any,
        risk: float,
        *,
        error: float = ERROR,
        costs: Costs = Mistakes(),
        rule: ThresholdRule = FixedSequence(),
    ) -> AbstainPolicy:
        """The policy that decides as much as it may, so that decisions cost no more than `risk` on average.

        With a probability of 1 - error (over the draw of the held-out rows) the mean cost among rows that it decides is
        no larger, whatever the model, for rows that are drawn like the held-out ones. Where these cannot promise that,
        the policy asks always, and its `promise` says how many rows would do.

        Args:
            prediction: of held-out rows, which took no part in training nor in any choice.
            y: what was observed there.
            risk: mean cost among decided rows that is acceptable; with `Mistakes` the part of mistakes.
            error: probability with which the promise may fail.
            costs: of actions.
            rule: by which the threshold is chosen.
        """
        check_kind("costs", costs, "Mistakes()", Costs)
        check_kind("rule", rule, "FixedSequence()", ThresholdRule)
        check_between("error", error)
        largest = costs.largest
        check_kind("risk", risk, "0.05", float)
        if not 0.0 <= risk < largest:
            raise ValueError(f"risk must be at least 0 and below {largest:g}, the largest cost, got {risk!r}")
        action, doubt = costs.best(prediction)
        targets = tensor(y, "y")
        if targets.shape[:1] != action.shape or targets.numel() != len(action):
            raise ValueError(f"y has shape {tuple(targets.shape)}, and there are predictions of {len(action)} rows")
        if targets.is_floating_point() and not bool(targets.isfinite().all()):
            raise ValueError("y holds NaN or infinite numbers: the guarantee needs every outcome; leave such rows out")
        curve = SelectionCurve.of(doubt, costs.incurred(action, targets.reshape(-1)) / largest)
        place = rule.place(curve, risk / largest, error)
        asking = -math.inf if place is None else curve.doubt[place]
        return AbstainPolicy(asking, costs, Promise.of(curve, place, costs.claim(risk), risk / largest, error))


ROUNDING = 1e-9
"""Part of the largest cost by which equal costs may differ, computed in other batches."""


def _probabilities(prediction: Predictive) -> Tensor:
    if not isinstance(prediction, ClassPredictive) or prediction.probs.ndim != 2:
        raise TypeError("costs of classes need one of K classes for each row; for numbers there is Misses(tolerance)")
    if not prediction.likelihood.exclusive:
        if prediction.probs.shape[1] > 1:
            raise TypeError("the prediction has several yes-or-no answers for each row: decide one at a time")
        yes = prediction.probs.double()
        return torch.cat([1.0 - yes, yes], dim=1)
    probs = prediction.probs.double()
    return probs / probs.sum(1, keepdim=True)  # a cost that is the same for all classes comes out as it is


def _class_numbers(y: Tensor, classes: int | None) -> Tensor:
    if y.is_floating_point() and not bool((y == y.round()).all()):
        raise ValueError("y holds fractions: costs of classes need class numbers")
    numbers = y.long()
    if bool((numbers < 0).any()) or (classes is not None and bool((numbers >= classes).any())):
        known = "0, 1, 2, ..." if classes is None else f"0 to {classes - 1}"
        raise ValueError(f"y holds class numbers up to {int(numbers.max())}, and the classes are {known}")
    return numbers
