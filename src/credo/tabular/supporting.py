"""What training rows say about which rows are unfamiliar: made once, saved with a run, read again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from credo.core.storage import StorageError, find, read_tensors
from credo.data.columns import CategoryColumn
from credo.data.encoder import Encoder
from credo.tabular.calibrating import CalibratedFit
from credo.uncertainty.familiarity import disagreement
from credo.uncertainty.support import Support

SUPPORT = "support.safetensors"
"""Of a run folder; runs of older versions have none."""
FAR = 1e6
"""Standardized inputs are clipped here: a million standard deviations away is as unfamiliar as it gets."""
HOLE = 4.0
"""What the feature is divided by that says that a cell is missing: where some were, another one is nothing new."""
FEWEST = 20
"""Training rows below which nothing is said about what is usual."""


def support_of(fitted: CalibratedFit, encoder: Encoder, trained: pd.DataFrame, seed: int = 0) -> Support | None:
    """From the training rows, each looked at as if it were new.

    Args:
        fitted: the posterior, and the training rows as the networks predict them that were not trained on them.
        encoder: of the table.
        trained: the training rows.
        seed: of the rows that are kept.

    Returns:
        The support; None where there are too few rows.
    """
    if len(trained) < FEWEST:
        return None
    x = encoder.encode(trained).x.clamp(-FAR, FAR)
    rows, apart = torch.arange(len(x)), None
    if fitted.unseen is not None:
        rows, apart = fitted.unseen.order, _disagreement(fitted)
    novelty = torch.as_tensor(encoder.novelty(trained, training=True))
    return Support.of(x, torch.tensor(encoder.measured), _scales(encoder), rows, apart, novelty, seed=seed)


def _disagreement(fitted: CalibratedFit) -> Tensor | None:
    """Of the networks that have not seen a row, as large as it would be among all of them.

    Of m networks the variance around their own mean is (m - 1) / m of that of the functions.
    """
    assert fitted.unseen is not None
    several, networks = min(fitted.unseen.members), fitted.posterior.members().members
    if networks > 1 and several == 1:
        return None  # a single network does not disagree with itself
    more = (1.0 - 1.0 / networks) / (1.0 - 1.0 / several) if networks > 1 else 1.0
    return math.sqrt(more) * fitted.unseen.each(disagreement)


def _scales(encoder: Encoder) -> Tensor:
    """For distances: two categories are one apart, as two numbers are that differ by their standard deviation."""
    found = list[float]()
    for column in encoder.inputs:
        kind = math.sqrt(2.0) if isinstance(column, CategoryColumn) else 1.0
        found += [kind] * (len(column.features) - column.missing) + [HOLE] * column.missing
    return torch.tensor(found, dtype=torch.float64)


def support_tensors(support: Support) -> dict[str, Tensor]:
    """The tensors of a support, by their names."""
    return dict(vars(support))


def read_support(folder: Path, features: int) -> Support | None:
    """The support of a saved run; None for one of an older version.

    Args:
        folder: of the run.
        features: inputs of its network.
    """
    if find(folder, SUPPORT) is None:
        return None
    tensors: Mapping[str, Tensor] = read_tensors(folder, SUPPORT)[0]
    try:
        support = Support(**tensors)
    except (TypeError, ValueError) as error:
        raise StorageError(f"{folder / SUPPORT} is damaged ({error})") from None
    if support.known.shape[1] != features:
        raise StorageError(f"{folder / SUPPORT} is of another run: its files belong together, copy them all")
    return support
