"""The model of a table: its network, its noise and the units of its target, as out-of-fold rows choose them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from credo.data.encoder import ClassTarget, Encoder, NumericTarget
from credo.data.scaling import standardized
from credo.likelihoods import Categorical, Likelihood, Standardized
from credo.model import Model
from credo.tabular.choosing import Design, DesignSearch, TableRows
from credo.tabular.recipes import Recipe, TableNet
from credo.tabular.training import ValidationListener


@dataclass(frozen=True, eq=False)
class DesignedTable:
    """A table that is ready to be learned from.

    Attributes:
        encoder: of its rows; where the noise is one of positive numbers or counts, targets keep their own units.
        model: with its likelihood of encoded targets.
        y: encoded targets, (N, 1), or class numbers (N,).
        design: what was chosen.
    """

    encoder: Encoder
    model: Model
    y: Tensor
    design: Design


def design_table(
    encoder: Encoder,
    rows: TableRows,
    recipe: Recipe,
    *,
    seed: int = 0,
    listener: ValidationListener | None = None,
    folder: Path | None = None,
) -> DesignedTable:
    """Choose the design, and make the model by it.

    Args:
        encoder: of the table.
        rows: encoded inputs, and targets in the units of the table.
        recipe: the method.
        seed: of the choice.
        listener: called at every validation of a candidate.
        folder: where the choice is saved as it goes.
    """
    search = DesignSearch(rows, recipe.settings, seed, folder, listener)
    if isinstance(encoder.target, ClassTarget):
        design = search.choose(TableNet(len(encoder.target.classes)), Categorical())
        return DesignedTable(encoder, search.model(design.net, Categorical(), recipe), rows.y, design)
    design = search.choose(TableNet(2))
    assert design.noise is not None
    values = rows.y.double().numpy()
    likelihood: Likelihood = design.noise.likelihood(values, rows.counted)
    if isinstance(likelihood, Standardized):  # the encoder standardizes, in float64
        likelihood = likelihood.base
    else:
        encoder = replace(encoder, target=replace(encoder.target, mean=0.0, scale=1.0))
    target = encoder.target
    assert isinstance(target, NumericTarget)
    encoded = torch.tensor(standardized(values, target.mean, target.scale), dtype=torch.float32)
    return DesignedTable(encoder, search.model(design.net, likelihood, recipe), encoded, design)
