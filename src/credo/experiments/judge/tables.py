"""A table as a problem for the judge."""

from __future__ import annotations

from pathlib import Path

import torch

from credo.data.encoder import ClassTarget, Encoder
from credo.experiments.judge.problem import CONTESTS, Contest
from credo.likelihoods import Categorical, LearnedGaussian
from credo.model import Model
from credo.nets import MLP
from credo.priors import Normal
from credo.tabular.loading import FitRequest, load_table

MOST = 2000
"""Training rows, all of which every step of the judge looks at."""
JUDGED = 100
"""Held-out rows at which methods are compared."""
HIDDEN = 20
FAR = 3.0
"""Times as far from the mean of the training rows, in every column: rows outside the data."""


def contest_of(name: str, target: str | None, seed: int) -> Contest:
    """The problem of this name, or that of a table.

    Raises:
        ValueError: there is none; the sentence says what there is.
    """
    if name in CONTESTS:
        return CONTESTS[name](seed)
    if not Path(name).suffix:
        raise ValueError(
            f"there is no problem {name!r} to compare on: there are {', '.join(CONTESTS)}, or a CSV file with --target"
        )
    if target is None:
        raise ValueError(f"--target must say which column of {name} is to be predicted")
    return table_contest(Path(name), target, seed)


def table_contest(path: Path, target: str, seed: int) -> Contest:
    """A table: a network with one hidden layer on most rows, compared at the others and at rows far outside."""
    loaded = load_table(path, FitRequest(target, seed=seed))
    problem, parts = loaded.problem, loaded.parts
    if len(parts.train) > MOST:
        raise ValueError(
            f"{path} has {len(parts.train)} training rows, and the judge looks at all of them in every step: give "
            f"it a sample of at most {MOST}"
        )
    encoder = Encoder.fit(problem, parts.train)
    trained, held_out = (problem.frame.iloc[rows].reset_index(drop=True) for rows in (parts.train, parts.test))
    x, near = encoder.encode(trained).x, encoder.encode(held_out).x
    classes = isinstance(encoder.target, ClassTarget)
    outputs = len(encoder.target.classes) if isinstance(encoder.target, ClassTarget) else 1
    net = MLP(x.shape[1], outputs, hidden=(HIDDEN,), activation="tanh")
    few = near[:JUDGED]
    return Contest(
        path.stem,
        f"{path.name}: {len(x)} rows, {x.shape[1]}-{HIDDEN}-{outputs} with tanh",
        Model(net, Categorical() if classes else LearnedGaussian(), Normal(scale=1.0)),
        x,
        encoder.encode_target(trained),
        torch.cat([few, FAR * few]),
        torch.arange(2 * len(few)) < len(few),
        (near, encoder.encode_target(held_out)),
    )
