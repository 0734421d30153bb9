"""How several members are computed: together, or one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from torch import nn


class Plan(Enum):
    """How a network is evaluated for several members or draws. Both give the same numbers up to rounding."""

    TOGETHER = "together"
    """All members in one vectorized pass (`torch.func.vmap`)."""
    ONE_BY_ONE = "one by one"
    """A loop over members."""


_UNBATCHED = (nn.RNNBase, nn.MultiheadAttention)
"""Modules whose kernels vmap cannot batch."""
_SMALL = 200_000
"""Up to this many weights a dense net is bound by the cost of launching operations, so together wins."""


def obvious_plan(module: nn.Module, members: int) -> tuple[Plan, str] | None:
    """The plan and its reason where no measurement is needed; None where it must be measured."""
    kinds = list(module.modules())
    if members == 1:
        return Plan.ONE_BY_ONE, "one member"
    if any(isinstance(m, _UNBATCHED) for m in kinds):
        return Plan.ONE_BY_ONE, "a recurrent or attention layer that torch cannot vectorize"
    if any(isinstance(m, nn.modules.conv._ConvNd) for m in kinds):
        return None
    if sum(p.numel() for p in module.parameters()) <= _SMALL:
        return Plan.TOGETHER, "a small network without convolutions"
    return None


def drawing_plan(module: nn.Module, draws: int, on_cpu: bool) -> Plan:
    """The plan for a forward pass of drawn functions: no measurement, so that the same call gives the same bits."""
    obvious = obvious_plan(module, draws)
    if obvious is not None:
        return obvious[0]
    return Plan.ONE_BY_ONE if on_cpu else Plan.TOGETHER


def measured_plan(attempt: Callable[[Plan], object], repeats: int = 3) -> tuple[Plan, str]:
    """Time a step that leaves nothing behind under both plans, interleaved; the faster that does not fail."""
    best: dict[Plan, float] = {}
    for plan in Plan:
        try:
            attempt(plan)
        except RuntimeError:
            if plan is Plan.ONE_BY_ONE:
                raise
            return Plan.ONE_BY_ONE, "torch cannot vectorize this network"
        best[plan] = float("inf")
    for _ in range(repeats):
        for plan in Plan:
            begin = time.perf_counter()
            attempt(plan)
            best[plan] = min(best[plan], time.perf_counter() - begin)
    plan = min(best, key=lambda p: best[p])
    times = ", ".join(f"{p.value} {1000 * seconds:.2f} ms" for p, seconds in best.items())
    return plan, f"measured: {times}"
