"""How well a run does on examples that it does not learn from."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from credo.core.trees import Variables, finite_members
from credo.loop.batches import check_rows, pair, prepared
from credo.model import Batch, Target, likelihood_params
from credo.predictive import ClassPredictive, predictive

ENTRIES = 2**24
"""Entries of the largest activation in one pass, so that a large set does not take all memory."""


class Validation:
    """Held-out examples; called with members' weights it gives 1/N sum_n log 1/M sum_m p(y_n | x_n, w_m).

    Where the targets are classes it also gives the part of them that the mixture over members takes for most probable.
    """

    def __init__(self, data: Any, target: Target, variables: Variables) -> None:
        model = target.model
        pairs = zip(pair(data), ("validation x", "validation y"), strict=True)
        x, y = (prepared(values, name, model.network.dtype).to(variables.device) for values, name in pairs)
        check_rows(x, y)
        rows = max(1, ENTRIES // (model.network.trace(variables, x).activations * variables.members))
        targets = model.likelihood.check_targets(y, model.outputs(variables, x))
        self.parts = [Batch(*part) for part in zip(torch.split(x, rows), torch.split(targets, rows), strict=True)]
        self.size = len(x)

    @torch.no_grad()
    def __call__(self, target: Target, variables: Variables) -> dict[str, Tensor]:
        """Metrics of the members whose weights are finite."""
        finite = finite_members(variables.params)
        if not bool(finite.all()) and bool(finite.any()):
            variables = variables.take(finite.nonzero()[:, 0])
        params, likelihood = likelihood_params(variables.params), target.model.likelihood
        log_probs, right = [], []
        for part in self.parts:
            outputs = target.model.network.evaluate(variables, part.x, target.plan)  # (M, B, E)
            log_probs.append(likelihood.log_prob(outputs, part.y, params))  # (M, B)
            mixture = predictive(likelihood, outputs, params, outputs.new_zeros(len(outputs)))
            if isinstance(mixture, ClassPredictive):
                right.append((mixture.label == part.y).double().flatten())
        each = torch.cat(log_probs, dim=1)
        result = {"validation_log_likelihood": (torch.logsumexp(each, 0) - math.log(len(each))).mean()}
        return {**result, "validation_accuracy": torch.cat(right).mean()} if right else result
