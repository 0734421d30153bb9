"""Draws the pictures of README and documentation anew: `make figures`.

Most are figures of experiments, run at full size; the experiments say in their captions what to see.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import lessons
import readme

import estimators
from credo.core.threads import one_thread
from credo.experiments.base import Progress, Size
from credo.experiments.judge.figures import draw
from credo.experiments.judge.measure import compare
from credo.experiments.judge.problem import CANDIDATES, CONTESTS, FULL_DRAWS, the_judge
from credo.experiments.registry import load
from credo.experiments.runs import perform

ASSETS = Path(__file__).parent / "assets"
PICTURES = {
    "coin": ("beliefs.png",),
    "line": ("posterior.png", "prediction.png", "mean_field.png"),
    "evidence": ("evidence.png",),
    "sine": ("sine.png", "sine-samplers.png", "sine-spread.png", "sine-runs.png"),
}
"""Pictures by the experiment that draws them."""


def compared() -> None:
    """What `credo compare` draws: every method beside the judge."""
    for name, contest in CONTESTS.items():
        with tempfile.TemporaryDirectory() as folder, one_thread():
            found = compare(contest(0), the_judge(FULL_DRAWS), CANDIDATES, Size.FULL, 0, Progress())
            shutil.copyfile(Path(folder) / draw(Path(folder), found).path, ASSETS / f"compare-{name}.png")
            print(f"compare {name}: assets/compare-{name}.png")


def main() -> None:
    estimators.main()
    lessons.draw()
    readme.main()
    compared()
    for name, files in PICTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            perform(load(name), Size.FULL, Path(folder), 0, Progress())
            for file in files:
                kept = ASSETS / (file if file.startswith(name) else f"{name}-{file}")
                shutil.copyfile(Path(folder) / file, kept)
                print(f"{name}: {kept.relative_to(ASSETS.parent)}")


if __name__ == "__main__":
    main()
