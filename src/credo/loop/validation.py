"""How well a run does on examples that it does not learn from."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from credo.core.trees import Variables
from credo.loop.batches import check_rows, pair, prepared
from credo.model import Batch, Target

ENTRIES = 2**24
"""Entries of the largest activation in one pass, so that a large set does not take all memory."""


class Validation:
    """Held-out examples; called with members' weights it gives 1/N sum_n log 1/M sum_m p(y_n | x_n, w_m).

    Args:
        data: a pair (x, y) or a TensorDataset.
        target: whose model is validated.
        variables: of that model, to look at its outputs.
    """

    def __init__(self, data: Any, target: Target, variables: Variables) -> None:
        model = target.model
        given = zip(pair(data), ("validation x", "validation y"), strict=True)
        x, y = (prepared(values, name, model.network.dtype).to(variables.device) for values, name in given)
        check_rows(x, y)
        rows = max(1, ENTRIES // (model.network.trace(variables, x).activations * variables.members))
        targets = model.likelihood.check_targets(y, model.outputs(variables, x))
        self.parts = [Batch(*part) for part in zip(torch.split(x, rows), torch.split(targets, rows), strict=True)]
        self.size = len(x)

    @torch.no_grad()
    def __call__(self, target: Target, variables: Variables) -> Tensor:
        each = torch.cat([target.log_likelihood(variables, part) for part in self.parts], dim=1)  # (M, N)
        return (torch.logsumexp(each, 0) - math.log(len(each))).mean()
