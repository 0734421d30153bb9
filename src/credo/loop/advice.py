"""Whether a run that came to its end was long enough, and whether it learned anything at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import torch

from credo.core.inputs import Inputs, TensorTree, leaves_of, rows_at_once
from credo.core.trees import Variables, finite_members
from credo.model import Target, likelihood_params

NATS = 0.05
"""A rise of the log likelihood per example in a tenth of the run that is worth a word."""
ERRORS = 2.0
"""By how many standard errors the slope must be above the noise of single epochs."""
FEWEST = 10
"""Rows of a history that can show it."""
ROWS = 256
"""Examples that are looked at."""
FAINT = 0.01
"""Answers that vary by less than this part of the targets' spread hardly depend on the inputs."""


def still_improving(history: Sequence[Mapping[str, float]], positions: int = 1) -> str | None:
    """A sentence where the log likelihood rose in the last third of a run; None where it did not, or nobody can tell.

    Args:
        history: one row per epoch.
        positions: of an example, whose log likelihood is a sum over so many.

    Examples:
        >>> still_improving([{"log_likelihood": float(i)} for i in range(50)]).split(";")[1]
        ' train longer, or with larger steps'
        >>> still_improving([{"log_likelihood": -1.0}] * 50) is None
        True
    """
    values = [row["log_likelihood"] for row in history if "log_likelihood" in row]
    if len(values) < FEWEST:
        return None
    last = values[-max(6, len(values) // 3) :]
    slope, error = _line(last)
    rise = slope * len(values) / 10
    if not (rise > NATS * positions and slope > ERRORS * error):  # a NaN is no rise
        return None
    return (
        f"still getting better when it ended: the log likelihood per example was rising by {rise:.2g} in each tenth of "
        "the run; train longer, or with larger steps"
    )


def _line(values: Sequence[float]) -> tuple[float, float]:
    """The slope of a line through values by their number, and its standard error."""
    count, middle, mean = len(values), (len(values) - 1) / 2, fmean(values)
    spread = sum((i - middle) ** 2 for i in range(count))
    slope = sum((i - middle) * (value - mean) for i, value in enumerate(values)) / spread
    rest = sum((value - mean - slope * (i - middle)) ** 2 for i, value in enumerate(values))
    return slope, (rest / (count - 2) / spread) ** 0.5


@torch.no_grad()
def unresponsive(target: Target, variables: Variables, x: Inputs, y: Inputs) -> str | None:
    """A sentence if every member gives nearly the same answer to all inputs although the targets differ.

    That is how a fit looks when the prior outweighs the data, or when training has hardly begun.
    """
    variables = variables.take(finite_members(variables.params).nonzero()[:, 0])
    if isinstance(y, TensorTree):
        return None
    rows = rows_at_once(x, ROWS)
    few, targets = x[:rows], y[:rows].double()
    if variables.members == 0 or len(few) < 2 or _all_same(few) or _all_same(targets):
        return None
    likelihood, params = target.model.likelihood, likelihood_params(variables.params)
    outputs = target.model.network.evaluate(variables, few, target.plan)  # (M, B, E)
    outputs = likelihood.in_units(outputs, params)[1].double()
    # what was not observed is NaN, and takes part in no spread
    known = torch.where(targets.isnan(), targets.nanmean(0), targets).nan_to_num(0.0)
    spread = float(known.std(0).max()) if y.is_floating_point() else 1.0
    if not bool(outputs.isfinite().all()) or float(outputs.std(1).max()) >= FAINT * spread:
        return None
    return (
        "the answers hardly depend on the inputs: the prior may outweigh the data (give a wider one), or training was "
        "too short; scale inputs and targets to order one"
    )


def _all_same(rows: Inputs) -> bool:
    return all(bool((t == t[0]).all()) for t in leaves_of(rows).values())
