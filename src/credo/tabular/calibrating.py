"""Predictions of training rows by networks that have not seen them, and what they teach about error bars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.posteriors import Posterior
from credo.predictive import Predictive
from credo.tabular.training import FitResult

Predict = Callable[[Posterior, Tensor], Predictive]
"""How a posterior predicts inputs, such as `credo.tabular.predictions.predict_exactly`."""


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions of training rows, each by the mixture over exactly the networks that were not trained on it.

    They come in parts, one for each set of networks: calibrators take a list of predictions.

    Attributes:
        rows: numbers of the rows of each part; no row is in two, and rows that all networks have seen are in none.
        parts: what is predicted for them.
        members: how many networks predict each part.
    """

    rows: tuple[Tensor, ...]
    parts: tuple[Predictive, ...]
    members: tuple[int, ...]

    def __len__(self) -> int:
        return sum(map(len, self.rows))

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
