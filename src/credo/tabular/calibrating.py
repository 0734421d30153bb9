"""Predictions of training rows by networks that have not seen them, and what they teach about error bars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from credo.calibration import CdfMap, ConformalIntervals, Temperature
from credo.posteriors import Calibrated, Posterior
from credo.predictive import ClassPredictive, Predictive
from credo.tabular.training import FitResult

Predict = Callable[[Posterior, Tensor], Predictive]
"""How a posterior predicts inputs, such as `credo.tabular.predictions.predict_exactly`."""


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions of training rows, each by the mixture over exactly the networks that were not trained on it.

    They come in parts, one for each set of networks: calibrators take a list of predictions.

    Attributes:
        rows: numbers of the rows of each part; rows that all networks have seen are in none.
        parts: what is predicted for them.
        members: how many networks predict each part.
    """

    rows: tuple[Tensor, ...]
    parts: tuple[Predictive, ...]
    members: tuple[int, ...]

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    def some(self, which: slice) -> OutOfFold:
        """Some of the parts."""
        return OutOfFold(self.rows[which], self.parts[which], self.members[which])

    def of(self, values: Tensor) -> list[Tensor]:
        """Values of all training rows (N, ...), such as their targets, part by part."""
        return [values[rows] for rows in self.rows]

    def each(self, of: Callable[[Predictive], Tensor]) -> Tensor:
        """Something of every prediction, (B, ...), in the order of `order`."""
        return torch.cat([of(part) for part in self.parts])

    @property
    def order(self) -> Tensor:
        """The numbers of the rows, part after part."""
        return torch.cat(self.rows)


def out_of_fold(result: FitResult, x: Tensor, predict: Predict) -> OutOfFold | None:
    """Every training row as the networks predict it that were not trained on it.

    Args:
        result: of the training.
        x: inputs of the training rows, (N, F), in the order of the training.
        predict: how a posterior predicts inputs: in units of the user, where it should be in these.

    Returns:
        The predictions; None where no row was held out from any network.
    """
    if result.folds is None or result.unseen is None or not bool(result.unseen.any()):
        return None
    patterns, group = torch.unique(result.unseen.T, dim=0, return_inverse=True)
    rows, parts, members = [], [], []
    for number, pattern in enumerate(patterns):
        if bool(pattern.any()):
            chosen = pattern.nonzero()[:, 0]
            rows.append((group == number).nonzero()[:, 0])
            parts.append(predict(result.folds.of_members(chosen), x[rows[-1]]))
            members.append(len(chosen))
    return OutOfFold(tuple(rows), tuple(parts), tuple(members))


def one_by_one(result: FitResult, x: Tensor, predict: Predict) -> OutOfFold:
    """Every training row as each single network predicts it that was not trained on it: as often as there are such."""
    assert result.folds is not None
    assert result.unseen is not None
    rows = tuple(unseen.nonzero()[:, 0] for unseen in result.unseen)
    parts = [predict(result.folds.of_members(torch.tensor([k])), x[some]) for k, some in enumerate(rows)]
    return OutOfFold(rows, tuple(parts), (1,) * len(rows))


@dataclass(frozen=True, eq=False)
class CalibratedFit:
    """A posterior with calibrated error bars.

    Attributes:
        posterior: `Calibrated`, with a note that says on what; where no row is unseen, as it was.
        unseen: training rows as the networks predict them that were not trained on them, calibrated for as many; None
            where there are none.
    """

    posterior: Posterior
    unseen: OutOfFold | None = None


def calibrated(
    result: FitResult, x: Tensor, y: Tensor, predict: Predict, *, weights: Tensor | None = None
) -> CalibratedFit:
    """The posterior of a training, with error bars calibrated on training rows that networks have not seen.

    The calibrator for m networks is made of rows that m networks have not seen. A mixture of more networks errs less
    and is in more doubt, so that its calibrator is another, and it goes on from those for 1 and m in a straight line in
    1/m: what is learned from one network alone would make the intervals of ten far too wide.

    Args:
        result: of the training.
        x: inputs of the training rows, (N, F).
        y: their targets, in the units in which `predict` predicts.
        predict: how a posterior predicts inputs.
        weights: how much each row counts, (N,); None for one each.
    """
    found = out_of_fold(result, x, predict)
    if found is None:
        return CalibratedFit(result.posterior)
    networks = result.posterior.members().members
    try:
        own = _learned(found, y, weights)
        calibrator = _carried_on(own, result, found, networks, x, y, predict, weights)
        ends = _ends_of_intervals(found, y, weights)
    except ValueError as error:
        return CalibratedFit(_noted(result.posterior, f"error bars are not calibrated: {error}"), found)
    noted = _noted(result.posterior, _said(result, found, networks))
    posterior = Calibrated.of(noted, calibrator, *ends)
    return CalibratedFit(posterior, replace(found, parts=tuple(map(own.apply, found.parts))))


def _carried_on(
    own: CdfMap | Temperature,
    result: FitResult,
    found: OutOfFold,
    networks: int,
    x: Tensor,
    y: Tensor,
    predict: Predict,
    weights: Tensor | None,
) -> CdfMap | Temperature:
    """The calibrator for so many networks, from what one needs and what as many need as have not seen a row."""
    several = min(found.members)
    if several == 1 or several >= networks > 1:
        return own
    assert result.unseen is not None
    counted = torch.ones(len(x), dtype=torch.float64) if weights is None else weights.double()
    one = _learned(one_by_one(result, x, predict), y, counted / result.unseen.sum(0).clamp_min(1))
    if networks == 1:
        return one
    steps = (1.0 / several - 1.0 / networks) / (1.0 - 1.0 / several)
    return own.extrapolated(one, steps)  # type: ignore[arg-type]


def _ends_of_intervals(found: OutOfFold, y: Tensor, weights: Tensor | None) -> tuple[ConformalIntervals, ...]:
    """What moves the ends of intervals to where mapped scores lie, each by a map that half of the other rows made."""
    if len(found.parts) < 2 or isinstance(found.parts[0], ClassPredictive):
        return ()
    halves = [found.some(slice(first, None, 2)) for first in (0, 1)]
    mapped = [
        replace(half, parts=tuple(map(_learned(other, y, weights).apply, half.parts)))
        for half, other in zip(halves, reversed(halves), strict=True)
    ]
    parts = [part for half in mapped for part in half.parts]
    counted = None if weights is None else [each for half in mapped for each in half.of(weights)]
    return (ConformalIntervals.of(parts, [each for half in mapped for each in half.of(y)], weights=counted),)


def _learned(found: OutOfFold, y: Tensor, weights: Tensor | None) -> CdfMap | Temperature:
    kind = Temperature if isinstance(found.parts[0], ClassPredictive) else CdfMap
    return kind.of(found.parts, found.of(y), weights=None if weights is None else found.of(weights))


def _noted(posterior: Posterior, note: str) -> Posterior:
    return replace(posterior, record=replace(posterior.record, notes=(*posterior.record.notes, note)))


def _said(result: FitResult, found: OutOfFold, networks: int) -> str:
    """On what error bars are calibrated, and what of it can be proved."""
    several, asked = min(found.members), len(result.unseen) if result.unseen is not None else 0
    said = f"error bars are calibrated on {len(found):,} training rows"
    if several >= networks > 1:
        return f"{said}, on which no network was trained"
    by = f"the {several} of {asked} networks that were" if several > 1 else "the one network that was"
    said += f", each as predicted by {by} not trained on it"
    if several > 1 and networks > several:
        said += f", and from one and {several} networks carried on to all {networks}"
    elif networks > 1:
        said += f": they are somewhat too wide for the average of all {networks}"
    if isinstance(found.parts[0], ClassPredictive):
        return said
    proved = "what can be proved of such cross-validation is that 95 % intervals hold 90 % of new rows"
    owner = "their average" if networks == asked else "the final network"
    return f"{said}; {proved}, and it belongs to the networks of the folds, not to {owner}"
