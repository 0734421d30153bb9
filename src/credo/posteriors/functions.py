"""Drawn functions: one draw is one fixed function of x."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from credo.core.inputs import Inputs, TensorTree, inputs, rows_at_once
from credo.core.rng import Stream
from credo.core.trees import Params, Variables, map_tensors
from credo.model import Model, likelihood_params
from credo.nets.dropout import Site, draw_masks
from credo.nets.plan import Plan

MEMORY_ENTRIES = {"cpu": 2**21, "cuda": 2**27}
"""Entries of the largest activation of one function in one pass, so that many inputs do not take all memory.

On a CPU it is as much as memory that was freed is taken again for: fresh memory from the system costs more than a pass.
"""
CACHE_ENTRIES = {"cpu": 2**19, "cuda": 2**27}
"""The same of all functions that are computed together: on a CPU they should fit the cache."""
ELSEWHERE = 2**24
"""Either, on devices that are not named."""
MASK_ENTRIES = 2**23
"""Entries of the masks that are in memory at a time; the cut depends on the network alone, not on the machine."""


class Functions(ABC):
    """S functions drawn from a posterior: call it with inputs (B, ...) for outputs (S, B, E).

    What the network takes several of comes as one dict or tuple, as in `posterior.predict`.

    A drawn function is fixed: the same inputs give the same outputs, however often it is called and whatever inputs
    come beside them.

    Attributes:
        log_weights: log weights of the functions, (S,), normalized.
    """

    log_weights: Tensor

    @property
    @abstractmethod
    def likelihood_params(self) -> Params:
        """The likelihood's learned parameters for each function, (S, D)."""

    @abstractmethod
    def __call__(self, x: Any) -> Tensor:
        """Outputs (S, B, E) at inputs (B, ...)."""

    def __len__(self) -> int:
        """S."""
        return len(self.log_weights)


@dataclass(frozen=True, eq=False, repr=False)
class NetworkFunctions(Functions):
    """A network at S weights, or under S dropout masks."""

    model: Model  # what the functions belong to
    # weights of each function, (S, *shape); with masks, of the M members to whom the functions are dealt in turn, (M,
    # *shape)
    variables: Variables
    log_weights: Tensor  # log weights of the functions, (S,), normalized
    masks: Stream | None = None  # the noise of the dropout masks, one mask per function; None for no dropout
    # learned dropout rates, (M, *mask) each, for every site in order; empty where the network has its own
    rates: Mapping[str, Tensor] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"NetworkFunctions({len(self)} of {self.model!r})"

    @property
    def likelihood_params(self) -> Params:
        members = torch.arange(len(self)) % self.variables.members
        return {name: t[members.to(t.device)] for name, t in likelihood_params(self.variables.params).items()}

    @torch.no_grad()
    def __call__(self, x: Any) -> Tensor:
        return self.differentiable(x)

    def differentiable(self, x: Any) -> Tensor:
        """The same outputs, through which gradients by the inputs pass back where x asks for them."""
        network, draws, device = self.model.network, len(self), self.variables.device
        if not isinstance(x, Tensor | TensorTree):
            x = inputs(x, "x", network.input_dtype).to(device)
        traced = network.trace(self.variables, x)
        outputs = torch.empty((draws, len(x), *traced.output), dtype=network.dtype, device=device)
        rows = rows_at_once(x, MEMORY_ENTRIES.get(device.type, ELSEWHERE) // traced.activations)
        together = max(1, CACHE_ENTRIES.get(device.type, ELSEWHERE) // (traced.activations * rows))
        if self.masks is not None and traced.sites:
            members = self.variables.members
            for m in range(min(members, draws)):
                self._masked(outputs[m::members], m, x, traced.sites, rows, together)
            return outputs
        plan = network.drawing_plan(self.variables, x, draws)
        part = draws if plan is Plan.ONE_BY_ONE else together
        for r in _slices(len(x), rows):
            for s in _slices(draws, part):
                outputs[s, r] = network.evaluate(self._part(s), x[r], plan)
        return outputs

    def _masked(
        self, outputs: Tensor, member: int, x: Inputs, sites: tuple[Site, ...], rows: int, at_once: int
    ) -> None:
        """Fill in the functions of one member, whose weights they share; a block of masks at a time."""
        assert self.masks is not None
        network, device = self.model.network, self.variables.device
        weights = self.variables if self.variables.members == 1 else self.variables.take([member])
        keeps = self._keeps(member, sites)
        block = max(1, MASK_ENTRIES // sum(math.prod(site.mask_shape(None)) for site in sites))
        plan = network.drawing_plan(weights, x, min(block, len(outputs)))
        for b in _slices(len(outputs), block):
            stream = self.masks.child(member, b.start)
            masks = draw_masks(sites, stream, b.stop - b.start, None, network.dtype, device, keeps)
            for r in _slices(len(x), rows):
                outputs[b, r] = network.draw(weights, x[r], masks, plan, at_once=at_once)

    def _keeps(self, member: int, sites: tuple[Site, ...]) -> list[Tensor] | None:
        if not self.rates:
            return None
        if len(self.rates) != len(sites):
            raise ValueError(
                f"{len(self.rates)} dropout rates were learned, and the network drops at {len(sites)} places"
            )
        return [1.0 - rate[member : member + 1] for rate in self.rates.values()]

    def _part(self, part: slice) -> Variables:
        return self.variables if self.variables.members == 1 else map_tensors(lambda _, t: t[part], self.variables)


def _slices(total: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, total)) for start in range(0, total, size))
