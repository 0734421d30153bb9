"""What actions cost in each class of a table, and what to do with its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch

from credo.data import DataError
from credo.data.reading import read_table
from credo.data.values import numbers
from credo.decide.abstain import AbstainPolicy, CostMatrix
from credo.likelihoods import Categorical
from credo.predictive import predictive

SHAPE = "a cost table has a row for each action, its name first, and a column for each class"


@dataclass(frozen=True)
class ActionCosts:
    """Costs by the names of actions and classes, and the cost of asking a person instead.

    Attributes:
        actions: names, one for each row of the matrix.
        classes: names, one for each column.
        matrix: the costs.
        asking: what it costs to leave a row to a person.

    Examples:
        >>> table = pd.DataFrame({"action": ["treat", "send home"], "sick": [0, 50], "healthy": [1, 0]})
        >>> ActionCosts.of(table, asking=0.3).matrix.largest
        50.0
    """

    actions: tuple[str, ...]
    classes: tuple[str, ...]
    matrix: CostMatrix
    asking: float

    @staticmethod
    def read(path: Path, asking: float) -> ActionCosts:
        """From a CSV or Parquet file."""
        return ActionCosts.of(read_table(path).frame, asking)

    @staticmethod
    def of(table: pd.DataFrame, asking: float) -> ActionCosts:
        """From a table whose first column names the actions.

        Raises:
            DataError: if it is none.
        """
        if table.shape[1] < 2 or len(table) < 1:
            raise DataError(f"{SHAPE}: this one has {len(table)} row(s) and {table.shape[1]} column(s)")
        cells = {str(name): numbers(table[name]) for name in table.columns[1:]}
        for name, column in cells.items():
            if not all(math.isfinite(cell) and cell >= 0.0 for cell in column):
                raise DataError(
                    f"the costs in column {name!r} must be finite numbers from 0 on: a gain is a smaller cost"
                )
        if not (math.isfinite(asking) and asking >= 0.0):
            raise ValueError(f"the cost of asking must be a finite number from 0 on, got {asking}")
        actions = tuple(map(str, table[table.columns[0]]))
        return ActionCosts(actions, tuple(cells), CostMatrix(list(zip(*cells.values(), strict=True))), asking)

    def decided(self, frame: pd.DataFrame, classes: tuple[str, ...]) -> pd.DataFrame:
        """The predictions with what to do: columns action and expected_cost, and abstain by the cost of asking.

        Args:
            frame: of `predict_rows`, with a probability for each class.
            classes: of the model.

        Raises:
            DataError: if the costs are for other classes.
        """
        if set(self.classes) != set(classes) or len(self.classes) != len(classes):
            raise DataError(
                f"the costs are for {_listed(self.classes)}, and the classes are {_listed(classes)}: {SHAPE}"
            )
        order = [f"probability_{name}" for name in self.classes]
        probs = torch.as_tensor(frame[order].to_numpy(dtype="float64", copy=True))
        prediction = predictive(Categorical(), probs.log().unsqueeze(0), {}, torch.zeros(1))
        decisions = AbstainPolicy(self.asking, self.matrix).decide(prediction)
        strange = frame["unfamiliar"].fillna(False).astype(bool).to_numpy()
        found = frame.assign(abstain=decisions.asks.numpy() | strange)
        found.insert(0, "action", [self.actions[i] for i in decisions.action.tolist()])
        found.insert(1, "expected_cost", decisions.expected_cost.numpy())
        return found


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))
