"""What held-out rows can promise at every risk: how much is decided, and the smallest risk there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from credo.decide.guarantee import ERROR, FixedSequence, SelectionCurve, ThresholdRule

RISKS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Risks that people ask for."""
HALVINGS = 12
"""Of the interval in which the smallest risk lies: it is found to a 4000th."""


@dataclass(frozen=True)
class CertifiedRisk:
    """A risk, and what may be decided so that it is kept.

    Attributes:
        risk: mean loss among decided rows that is promised.
        decided: part of the rows that is decided; zero where nothing can be promised.
        observed: mean loss of these rows; None where none is decided.
    """

    risk: float
    decided: float
    observed: float | None


def certified_risks(
    curve: SelectionCurve,
    risks: Sequence[float] = RISKS,
    error: float = ERROR,
    rule: ThresholdRule = FixedSequence(),
) -> tuple[CertifiedRisk, ...]:
    """How much may be decided at each of several risks; each promise is one of its own, and choosing later is not free.

    Args:
        curve: of rows that took no part in training.
        risks: mean losses that are acceptable.
        error: probability with which the promise for any one of them may fail.
        rule: by which the threshold is chosen.

    Examples:
        >>> import torch
        >>> curve = SelectionCurve.of(torch.arange(100.0), (torch.arange(100) > 80).double())
        >>> [row.decided for row in certified_risks(curve, (0.01, 0.05, 0.2))]
        [0.0, 0.82, 0.92]
    """
    return tuple(_certified(curve, risk, error, rule) for risk in risks)


def _certified(curve: SelectionCurve, risk: float, error: float, rule: ThresholdRule) -> CertifiedRisk:
    place = rule.place(curve, risk, error)
    if place is None:
        return CertifiedRisk(risk, 0.0, None)
    return CertifiedRisk(risk, curve.count[place] / curve.rows, curve.loss[place] / curve.count[place])


def smallest_risk(
    curve: SelectionCurve, error: float = ERROR, rule: ThresholdRule = FixedSequence()
) -> CertifiedRisk | None:
    """The smallest risk that can be promised for any of the rows, to a 4000th; None where that is no risk below one.

    Examples:
        >>> import torch
        >>> curve = SelectionCurve.of(torch.arange(100.0), torch.zeros(100))
        >>> round(smallest_risk(curve).risk, 3)  # 0.977^100 = 0.1
        0.023
    """
    low, high = 0.0, 1.0 - 2.0**-HALVINGS
    if rule.place(curve, high, error) is None:
        return None
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if rule.place(curve, middle, error) is not None else (middle, high)
    return _certified(curve, high, error, rule)
