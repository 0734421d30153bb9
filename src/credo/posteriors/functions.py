"""Drawn functions: one draw is one fixed function of x."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.model import Model, likelihood_params
from credo.nets.dropout import Site, draw_masks
from credo.nets.plan import Plan

MEMORY_ENTRIES = {"cpu": 2**24, "cuda": 2**27}
"""Entries of the largest activation of one function in one pass, so that many inputs do not take all memory."""
CACHE_ENTRIES = {"cpu": 2**19, "cuda": 2**27}
"""The same of all functions that are computed together: on a CPU they should fit the cache."""
ELSEWHERE = 2**24
"""Either, on devices that are not named."""
MASK_ENTRIES = 2**23
"""Entries of the masks that are in memory at a time; the cut depends on the network alone, not on the machine."""


@dataclass(frozen=True, eq=False)
class Functions:
    """S functions drawn from a posterior: call it with inputs (B, ...) for outputs (S, B, E).

    Attributes:
        model: what the functions belong to.
        variables: weights of each function, (S, *shape); with masks, of the M members to whom the functions are dealt
            in turn, (M, *shape).
        log_weights: log weights of the functions, (S,), normalised.
        masks: the noise of the dropout masks, one mask per function; None for no dropout.
        rates: learned dropout rates, (M, *mask) each, for every site in order; empty where the network has its own.
    """

    model: Model
    variables: Variables
    log_weights: Tensor
    masks: Stream | None = None
    rates: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.log_weights)

    @property
    def likelihood_params(self) -> Params:
        """The likelihood's learned parameters for each function, (S, D)."""
        members = torch.arange(len(self)) % self.variables.members
        return {name: t[members.to(t.device)] for name, t in likelihood_params(self.variables.params).items()}

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        network, draws, device = self.model.network, len(self), self.variables.device
        traced = network.trace(self.variables, x)
        outputs = torch.empty((draws, len(x), *traced.output), dtype=network.dtype, device=device)
        rows = max(1, min(len(x), MEMORY_ENTRIES.get(device.type, ELSEWHERE) // traced.activations))
        together = max(1, CACHE_ENTRIES.get(device.type, ELSEWHERE) // (traced.activations * rows))
        if self.masks is not None and traced.sites:
            members = self.variables.members
            for m in range(min(members, draws)):
                self._masked(outputs[m::members], m, x, traced.sites, rows, together)
            return outputs
        plan = network.drawing_plan(self.variables, x, draws)
        lanes = draws if plan is Plan.ONE_BY_ONE else together
        for r in _slices(len(x), rows):
            for s in _slices(draws, lanes):
                outputs[s, r] = network.evaluate(self._part(s), x[r], plan)
        return outputs

    def _masked(
        self, outputs: Tensor, member: int, x: Tensor, sites: tuple[Site, ...], rows: int, at_once: int
    ) -> None:
        """Fill in the functions of one member, whose weights they share; a block of masks at a time."""
        assert self.masks is not None
        network, device = self.model.network, self.variables.device
        own = self.variables if self.variables.members == 1 else self.variables.take([member])
        keeps = self._keeps(member, sites)
        block = max(1, MASK_ENTRIES // sum(math.prod(site.mask_shape(None)) for site in sites))
        plan = network.drawing_plan(own, x, min(block, len(outputs)))
        for b in _slices(len(outputs), block):
            stream = self.masks.child(member, b.start)
            masks = draw_masks(sites, stream, b.stop - b.start, None, network.dtype, device, keeps)
            for r in _slices(len(x), rows):
                outputs[b, r] = network.draw(own, x[r], masks, plan, at_once=at_once)

    def _keeps(self, member: int, sites: tuple[Site, ...]) -> list[Tensor] | None:
        if not self.rates:
            return None
        if len(self.rates) != len(sites):
            raise ValueError(
                f"{len(self.rates)} dropout rates were learned, and the network drops at {len(sites)} places"
            )
        return [1.0 - rate[member : member + 1] for rate in self.rates.values()]

    def _part(self, lanes: slice) -> Variables:
        if self.variables.members == 1:
            return self.variables
        return Variables(
            {name: t[lanes] for name, t in self.variables.params.items()},
            {name: t[lanes] for name, t in self.variables.buffers.items()},
        )


def _slices(total: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, total)) for start in range(0, total, size))
