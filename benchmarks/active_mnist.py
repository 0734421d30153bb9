"""Computes rows of `credo reproduce active-mnist`, on a GPU or, with much patience, on a processor.

    CREDO_DATA=data python benchmarks/active_mnist.py runs/active-mnist 'cpu-*'

computes those of the named rows that the folder lacks and writes each as JSON when it is done. A row that is broken off
goes on at its last answer. Several such commands may fill one folder at once. `credo reproduce active-mnist --out` on
that folder then finds them.
"""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from credo.core.threads import one_thread
from credo.experiments.active_mnist.measure import LabelResult, train
from credo.experiments.active_mnist.problem import THRESHOLDS, LabelRow, full, smaller
from credo.experiments.base import Progress
from credo.experiments.rows import results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the run folder")
    parser.add_argument("rows", nargs="*", default=["*"], help="names or patterns of rows")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    progress = Progress(lambda text, share: print(text, flush=True))

    def trained(row: LabelRow) -> LabelResult:
        with one_thread():
            return train(row, given.seed, given.folder, progress, device)

    for pattern in given.rows:
        for row in [*smaller(), *full()]:
            if fnmatchcase(row.name, pattern):
                (result,) = results([row], LabelResult, given.folder, given.seed, trained).values()
                counted = ", ".join(f"{t} % at {result.needed(t)}" for t in THRESHOLDS)
                print(f"{row.name}: {counted} labels, {result.seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
