"""Trains rows of novel-class, mnist-ood, shift or fashion at full size, on a GPU or, slowly, on a CPU.

    CREDO_DATA=data python benchmarks/unknown.py novel-class runs/novel-class 'mc-*' vi

trains those of the named rows that the folder lacks and writes each as JSON when it is done; a training that was cut
short goes on. Several such commands may fill one folder, one after the other or, each with rows of its own, at once.
`credo reproduce novel-class` on that folder then finds them.
"""

from __future__ import annotations

import argparse
import time
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import torch

from credo.experiments import doubt
from credo.experiments.base import Progress
from credo.experiments.fashion import measure as fashion_measure
from credo.experiments.fashion import problem as fashion
from credo.experiments.mnist_ood import problem as mnist_ood
from credo.experiments.novel_class import problem as novel_class
from credo.experiments.rows import results
from credo.experiments.shift import measure as shift_measure
from credo.experiments.shift import problem as shift

TABLES: dict[str, Any] = {
    "novel-class": (
        [*novel_class.full(), *novel_class.shorter()],
        novel_class.cifar10,
        doubt.DoubtResult,
        doubt.train,
    ),
    "mnist-ood": (mnist_ood.full(), mnist_ood.mnist, doubt.DoubtResult, doubt.train),
    "shift": (shift.full(), shift.cifar10, shift_measure.ShiftResult, shift_measure.train),
    "fashion": (fashion.full(), fashion.garments, fashion_measure.FashionResult, fashion_measure.train),
}
"""Rows, images, the kind of a result, and what trains a row."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=TABLES)
    parser.add_argument("folder", type=Path, help="the run folder")
    parser.add_argument("rows", nargs="*", default=["*"], help="names or patterns of rows")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")  # ten bits of mantissa in a product are enough for these nets
    rows, images, kind, train = TABLES[given.experiment]
    data, device = cache(images), "cuda" if torch.cuda.is_available() else "cpu"
    found = [row for pattern in given.rows for row in rows if fnmatchcase(row.name, pattern)]
    begin = time.monotonic()
    how = given.folder, given.seed, Progress(), device
    for row in dict.fromkeys(found):
        (result,) = results([row], kind, given.folder, given.seed, lambda each: train(each, data(), *how)).values()
        print(f"{time.monotonic() - begin:6.0f} s  {row.name}: {result.seconds:.0f} s of training", flush=True)


if __name__ == "__main__":
    main()
