"""The plan of warm-up: when the step size is sought, and when the metric is learnt."""

from __future__ import annotations

from dataclasses import dataclass

FIRST, LAST, BASE = 75, 50, 25
"""Stan's numbers: iterations before the first window, after the last one, and of the first one."""


@dataclass(frozen=True)
class Windows:
    """Warm-up in three parts: to the typical set; windows of growing length, each of which ends with a new metric
    learnt from it alone; and a last search for the step.

    Attributes:
        warmup: iterations in all.
        begin: the first iteration whose position counts for a metric.
        ends: the iterations after which a metric is made, in order.
    """

    warmup: int
    begin: int
    ends: tuple[int, ...]

    def collects(self, iteration: int) -> bool:
        """Whether the position after this iteration counts for the next metric."""
        return bool(self.ends) and self.begin <= iteration <= self.ends[-1]


def stan_windows(warmup: int) -> Windows:
    """Stan's schedule; warm-ups that are too short for it keep 15 % before and 10 % after one window.

    Example:
        >>> stan_windows(1000)
        Windows(warmup=1000, begin=75, ends=(99, 149, 249, 449, 949))

    Reference: Stan Development Team, "Stan reference manual", section on automatic parameter tuning,
        https://mc-stan.org/docs/reference-manual/mcmc.html
    """
    if warmup < 20:
        return Windows(warmup, warmup, ())
    first, last, base = FIRST, LAST, BASE
    if first + last + base > warmup:
        first, last = int(0.15 * warmup), int(0.1 * warmup)
        base = warmup - first - last
    ends, start, size, stop = [], first, base, warmup - last
    while start < stop:
        # a window that would leave too little for the one after it takes all that is left
        end = stop if start + 3 * size > stop else start + size
        ends.append(end - 1)
        start, size = end, 2 * size
    return Windows(warmup, first, tuple(ends))


def early_windows(warmup: int) -> Windows:
    """Windows that double from a twentieth of warm-up on, for samplers to which a first rough metric saves much work.

    Example:
        >>> early_windows(200)
        Windows(warmup=200, begin=10, ends=(19, 39, 79, 179))
    """
    marks = [warmup // 20, warmup // 10, warmup // 5, 2 * warmup // 5, 9 * warmup // 10]
    if marks[0] == 0:
        return Windows(warmup, warmup, ())
    return Windows(warmup, marks[0], tuple(mark - 1 for mark in marks[1:]))
