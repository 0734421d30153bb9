"""Two things compared in one run: interleaved repeats, the best of each, and their ratio."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def best_of(tasks: Mapping[str, Callable[[], int]], repeats: int = 7) -> dict[str, float]:
    """Seconds per unit of work of each task, the best of interleaved repeats after one warm-up.

    Args:
        tasks: by name; each does its work and returns how many units (steps, passes) it did.
        repeats: how often each is timed.
    """
    best = {name: float("inf") for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(repeats):
        for name, task in tasks.items():
            begin = time.perf_counter()
            units = task()
            best[name] = min(best[name], (time.perf_counter() - begin) / units)
    return best


def per_step(runs: Mapping[str, Callable[[int], None]], short: int, long: int, repeats: int) -> dict[str, float]:
    """Seconds that one more step takes: the best long run less the best short one, over the steps between them.

    Processor time is taken, so call it with one thread: other programs on the machine disturb it little.

    Args:
        runs: by name; each makes as many steps as its argument says.
        short: steps of the short run.
        long: of the long one.
        repeats: how often each is timed, one after the other.
    """
    best = {(name, steps): float("inf") for name in runs for steps in (short, long)}
    for run in runs.values():
        run(short)
    for _ in range(repeats):
        for name, steps in best:
            begin = time.process_time()
            runs[name](steps)
            best[name, steps] = min(best[name, steps], time.process_time() - begin)
    return {name: (best[name, long] - best[name, short]) / (long - short) for name in runs}


def row(what: str, ours: float, theirs: float, promise: float | None) -> str:
    """One line of the table: a ratio beside what was promised for it, if anything was."""
    ratio = ours / theirs
    verdict = "" if promise is None else f" {promise:7.3f}  {'met' if ratio <= promise else 'MISSED'}"
    return f"{what:<62} {1000 * ours:9.3f} {1000 * theirs:9.3f} {ratio:7.3f}{verdict}"


HEADER = f"{'':<62} {'ours ms':>9} {'torch ms':>9} {'ratio':>7} {'promise':>7}"
