"""Whether what was learnt depends on the inputs at all."""

from __future__ import annotations

import torch
from torch import Tensor

from credo.core.trees import Variables
from credo.model import Target

ROWS = 256
"""Examples that are looked at."""
FAINT = 0.01
"""Answers that vary by less than this part of the targets' spread hardly depend on the inputs."""


@torch.no_grad()
def unresponsive(target: Target, variables: Variables, x: Tensor, y: Tensor) -> str | None:
    """A sentence if every member gives nearly the same answer to all inputs although the targets differ.

    That is how a fit looks when the prior outweighs the data, or when training has hardly begun.

    Args:
        target: the density that was explored.
        variables: where the run ended, one per member.
        x: training inputs, (N, ...).
        y: their targets as they were given.
    """
    few, targets = x[:ROWS], y[:ROWS].double()
    if len(few) < 2 or bool((targets == targets[0]).all()) or bool((few == few[0]).all()):
        return None
    outputs = target.model.network.evaluate(variables, few, target.plan).double()  # (M, B, E)
    spread = float(targets.std(0).max()) if y.is_floating_point() else 1.0
    if not bool(outputs.isfinite().all()) or float(outputs.std(1).max()) >= FAINT * spread:
        return None
    return (
        "the answers hardly depend on the inputs: the prior may outweigh the data (give a wider one), or training was "
        "too short; scale inputs and targets to order one"
    )
