"""Trains rows of `credo reproduce sparse-lenet` at full size on a GPU, or tries settings on held-out training images.

    CREDO_DATA=data python benchmarks/gpu_sparse.py rows runs/sparse-lenet lenet-300-100
    CREDO_DATA=data python benchmarks/gpu_sparse.py trials dense-2e-3-1e-3

The first writes each row as JSON when it is done, and `credo reproduce sparse-lenet` on that folder finds it; two such
commands may fill one folder at once. The second trains on 50,000 of the training images and measures on the other
10,000: how the settings in `rows.py` were chosen. The test images take no part in it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import torch

from credo.experiments.base import Progress
from credo.experiments.classifiers import Images, images
from credo.experiments.rows import results
from credo.experiments.sparse_lenet.measure import SparseResult, train
from credo.experiments.sparse_lenet.problem import (
    PIXELS_OVER,
    SPARSE,
    SparseRow,
    SquaredDecay,
    full,
    lenet_5_caffe,
    lenet_300_100,
)
from credo.methods.vi.objective import WarmUp

HELD_OUT = 10_000
NETS = {"dense": lenet_300_100, "convolutional": lenet_5_caffe}
TRIALS = {
    "dense-1e-3-1e-2": (60, {"learning_rate": 1e-3, "noise_learning_rate": 1e-2}),
    "dense-2e-3-1e-2": (60, {"learning_rate": 2e-3, "noise_learning_rate": 1e-2}),
    "dense-1e-3-1e-2-late": (60, {"learning_rate": 1e-3, "noise_learning_rate": 1e-2, "annealing": WarmUp(0.5)}),
    "dense-1e-3-1e-3": (100, {"learning_rate": 1e-3, "noise_learning_rate": 1e-3}),
    "dense-2e-3-2e-3": (100, {"learning_rate": 2e-3, "noise_learning_rate": 2e-3}),
    "dense-2e-3-1e-3": (100, {"learning_rate": 2e-3, "noise_learning_rate": 1e-3}),
    "dense-2e-3-5e-4": (200, {"learning_rate": 2e-3, "noise_learning_rate": 5e-4}),
    "dense-5e-3-1e-3": (200, {"learning_rate": 5e-3, "noise_learning_rate": 1e-3}),
    "dense-2e-3-3e-4": (200, {"learning_rate": 2e-3, "noise_learning_rate": 3e-4}),
    "convolutional-1e-3-1e-2": (60, {"learning_rate": 1e-3, "noise_learning_rate": 1e-2}),
    "convolutional-1e-3-1e-3": (60, {"learning_rate": 1e-3, "noise_learning_rate": 1e-3}),
    "convolutional-2e-3-2e-3": (60, {"learning_rate": 2e-3, "noise_learning_rate": 2e-3}),
    "convolutional-2e-3-5e-4": (120, {"learning_rate": 2e-3, "noise_learning_rate": 5e-4}),
    "convolutional-2e-3-5e-4-long": (200, {"learning_rate": 2e-3, "noise_learning_rate": 5e-4}),
    "convolutional-2e-3-3e-4": (200, {"learning_rate": 2e-3, "noise_learning_rate": 3e-4}),
    "convolutional-5e-3-3e-4": (200, {"learning_rate": 5e-3, "noise_learning_rate": 3e-4}),
    "convolutional-2e-3-3e-4-late": (200, {"noise_learning_rate": 3e-4, "annealing": WarmUp(0.5)}),
    "convolutional-4e-3-2e-3-squared": (
        200,
        {"learning_rate": 4e-3, "noise_learning_rate": 2e-3, "schedule": SquaredDecay()},
    ),
    "convolutional-4e-3-1e-3-squared": (
        200,
        {"learning_rate": 4e-3, "noise_learning_rate": 1e-3, "schedule": SquaredDecay()},
    ),
    "convolutional-6e-3-3e-3-squared": (
        200,
        {"learning_rate": 6e-3, "noise_learning_rate": 3e-3, "schedule": SquaredDecay()},
    ),
    "convolutional-5e-3-1e-3": (120, {"learning_rate": 5e-3, "noise_learning_rate": 1e-3}),
}
"""Epochs and numbers by name; the first number is the step size of the weights, the second that of the noise."""


def held_out(data: Images) -> Images:
    """The training images alone, cut in two."""
    order = torch.randperm(len(data.x), generator=torch.Generator().manual_seed(1))
    learn, rest = order[:-HELD_OUT], order[-HELD_OUT:]
    return Images(data.x[learn], data.y[learn], data.x[rest], data.y[rest])


def trial(name: str) -> SparseRow:
    epochs, numbers = TRIALS[name]
    return SparseRow(name, NETS[name.split("-")[0]], replace(SPARSE, epochs=epochs, **numbers))


def say(result: SparseResult, begin: float) -> None:
    layers = "-".join(f"{100 * (1 - left / weights):.1f}" for _, weights, left in result.layers)
    print(
        f"{time.monotonic() - begin:6.1f} s  {result.name}: {1e6 * result.seconds / result.steps:.0f} us a step; "
        f"error {result.error:.2f}, whole {result.whole:.2f}, drawn {result.drawn}; "
        f"{result.ratio:.1f} times fewer weights, {layers}; threshold, error, compression: "
        + ", ".join(f"{t:g} {e:.2f} {r:.0f}" for t, e, r in result.by_threshold),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    rows = commands.add_parser("rows")
    rows.add_argument("folder", type=Path, help="the run folder")
    rows.add_argument("names", nargs="*", default=[row.name for row in full()])
    rows.add_argument("--seed", type=int, default=0)
    commands.add_parser("trials").add_argument("names", nargs="*", default=list(TRIALS))
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")  # on a GPU these runs need no more than 10 bits of mantissa per product
    device, begin = "cuda" if torch.cuda.is_available() else "cpu", time.monotonic()
    data = cache(partial(images, "mnist", PIXELS_OVER))

    def trained(row: SparseRow) -> SparseResult:
        return train(row, data(), given.seed, Progress(), device)

    for name in given.names:
        if given.command == "trials":
            say(train(trial(name), held_out(data()), 0, Progress(), device), begin)
        else:
            chosen = [row for row in full() if row.name == name]
            for result in results(chosen, SparseResult, given.folder, given.seed, trained).values():
                say(result, begin)


if __name__ == "__main__":
    main()
