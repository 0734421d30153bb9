"""Trains rows of `credo reproduce bbb-mnist` or `bbb-fashion` at full size on a GPU, where time on one is short.

    CREDO_DATA=data python benchmarks/gpu_bbb.py bbb-mnist runs/bbb-mnist 'mixture-*' sgd-400

trains those of the named rows that the folder lacks and writes each as JSON when it is done; several such commands may
fill one folder, one after the other or at once. `credo reproduce bbb-mnist --size full` on that folder then finds them.
"""

from __future__ import annotations

import argparse
import time
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path

import torch

from credo.experiments import bbb_fashion as fashion
from credo.experiments.base import Progress
from credo.experiments.bbb_mnist import problem as mnist
from credo.experiments.classifiers import ClassifierResult, ClassifierRow, images, train
from credo.experiments.rows import results

TABLES = {
    "bbb-mnist": ("mnist", mnist.rows()),
    "bbb-fashion": ("fashion-mnist", fashion.rows()),
}


def chosen(rows: list[ClassifierRow], patterns: list[str]) -> list[ClassifierRow]:
    """Rows by patterns of their names, in the order of the patterns."""
    found = [row for pattern in patterns for row in rows if fnmatchcase(row.name, pattern)]
    return list({row.name: row for row in found}.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=TABLES)
    parser.add_argument("folder", type=Path, help="the run folder")
    parser.add_argument("rows", nargs="*", default=["*"], help="names or patterns of rows")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")  # on a GPU these runs need no more than 10 bits of mantissa per product
    name, rows = TABLES[given.experiment]
    data = cache(partial(images, name, mnist.PIXELS_OVER))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    begin = time.monotonic()

    def trained(row: ClassifierRow) -> ClassifierResult:
        return train(row, data(), given.seed, Progress(), device)

    for row in chosen(rows, given.rows):
        (result,) = results([row], ClassifierResult, given.folder, given.seed, trained).values()
        pace = 1e6 * result.seconds / result.steps
        errors = f"at mean {result.at_mean}, drawn {result.drawn}, pruned {result.pruned}"
        print(
            f"{time.monotonic() - begin:6.1f} s  {row.name}: {result.seconds:.1f} s, {pace:.0f} us a step; {errors}",
            flush=True,
        )


if __name__ == "__main__":
    main()
