"""Drawn functions: one draw is one fixed function of x."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.model import Model, likelihood_params
from credo.nets.dropout import draw_masks
from credo.nets.plan import Plan, drawing_plan

MEMORY_ENTRIES = {"cpu": 2**24, "cuda": 2**27}
"""Entries of the largest activation of one function in one pass, so that many inputs do not take all memory."""
CACHE_ENTRIES = {"cpu": 2**19, "cuda": 2**27}
"""The same of all functions that are computed together: on a CPU they should fit the cache."""
ELSEWHERE = 2**24
"""Either, on devices that are not named."""


@dataclass(frozen=True, eq=False)
class Functions:
    """S functions drawn from a posterior: call it with inputs (B, ...) for outputs (S, B, E).

    Attributes:
        model: what the functions belong to.
        variables: weights of each function, (S, *shape), or of one (1, *shape) that all share and masks tell apart.
        log_weights: log weights of the functions, (S,), normalised.
        masks: the noise of the dropout masks, one mask per function; None for no dropout.
    """

    model: Model
    variables: Variables
    log_weights: Tensor
    masks: Stream | None = None

    def __len__(self) -> int:
        return len(self.log_weights)

    @property
    def likelihood_params(self) -> Params:
        """The likelihood's learned parameters for each function, (S, D)."""
        own = likelihood_params(self.variables.params)
        return {name: t.expand(len(self), *t.shape[1:]) for name, t in own.items()}

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        network, draws, device = self.model.network, len(self), self.variables.device
        traced = network.trace(self.variables, x)
        masks: list[Tensor] = []
        if self.masks is not None:
            masks = draw_masks(traced.sites, self.masks, draws, None, network.dtype, device)
        plan = drawing_plan(network.module, draws, device.type == "cpu")
        rows = max(1, min(len(x), MEMORY_ENTRIES.get(device.type, ELSEWHERE) // traced.activations))
        together = max(1, CACHE_ENTRIES.get(device.type, ELSEWHERE) // (traced.activations * rows))
        lanes = draws if plan is Plan.ONE_BY_ONE else together
        outputs = torch.empty((draws, len(x), *traced.output), dtype=network.dtype, device=device)
        for r in _slices(len(x), rows):
            for s in _slices(draws, lanes):
                part = self._part(s)
                if masks:
                    outputs[s, r] = network.draw(part, x[r], [mask[s] for mask in masks], plan)
                else:
                    outputs[s, r] = network.evaluate(part, x[r], plan)
        return outputs

    def _part(self, lanes: slice) -> Variables:
        if self.variables.members == 1:
            return self.variables
        return Variables(
            {name: t[lanes] for name, t in self.variables.params.items()},
            {name: t[lanes] for name, t in self.variables.buffers.items()},
        )


def _slices(total: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, total)) for start in range(0, total, size))
