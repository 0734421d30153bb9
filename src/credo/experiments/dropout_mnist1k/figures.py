"""The figures of dropout on a thousand images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from credo.experiments.base import Claim, Figure
from credo.reports.style import BLUE, GREY, ORANGE, RED, drawing


@dataclass(frozen=True)
class Look:
    """What is believed about one image.

    Attributes:
        label: what it is.
        image: grey values, (side, side).
        mean: probabilities of the ten classes.
        spread: their standard deviation over the draws.
        entropy: of the mean, in nats.
    """

    label: str
    image: Tensor
    mean: Tensor
    spread: Tensor
    entropy: float


@dataclass(frozen=True)
class Accuracy:
    """Of one row: accuracies of its repetitions in per cent, and the claims about their means, where there are any."""

    label: str
    naive: Sequence[float]
    sampled: Sequence[float]
    published: tuple[Claim | None, Claim | None]


def accuracies(folder: Path, rows: Sequence[Accuracy]) -> Figure:
    """Every repetition's accuracy, naive and by draws, beside the published mean and its standard deviation."""
    with drawing(folder / "accuracy.png", height=0.9 + 0.75 * len(rows)) as figure:
        axes = figure.subplots()
        for place, row in enumerate(reversed(rows)):
            for claim, values, colour, up in zip(
                row.published, (row.naive, row.sampled), (ORANGE, BLUE), (0.14, -0.14), strict=True
            ):
                if claim is not None and isinstance(claim.published, float):
                    bar = claim.published - claim.low
                    axes.errorbar(claim.published, place + up, xerr=bar, fmt="s", color=GREY, capsize=3)
                axes.plot(values, [place + up] * len(values), "o", color=colour, alpha=0.8)
        axes.plot([], [], "o", color=ORANGE, label="weights at their expectation")
        axes.plot([], [], "o", color=BLUE, label="average of 100 draws")
        axes.plot([], [], "s", color=GREY, label="Lee's table")
        axes.set_yticks(range(len(rows)), [row.label for row in reversed(rows)])
        axes.set_xlabel("accuracy on the test images (%)")
        figure.legend(loc="outside upper center", ncols=3)
    return Figure("accuracy.png", "A dot is one repetition; the bars are the published mean and standard deviation.")


def keeps(folder: Path, found: Mapping[str, Mapping[str, Tensor]]) -> Figure:
    """How often learned probabilities to keep a unit occur, for every layer and number of images."""
    layers = list(next(iter(found.values())))
    with drawing(folder / "keeps.png", width=9.0) as figure:
        panels = figure.subplots(1, len(layers), sharey=True, squeeze=False)[0]
        for axes, layer, place in zip(panels, layers, ("first", "second", "third", "fourth"), strict=False):
            for (label, kept), colour in zip(found.items(), (BLUE, RED), strict=False):
                axes.hist(
                    kept[layer].flatten().numpy(),
                    40,
                    range=(0.0, 1.0),
                    color=colour,
                    alpha=0.6,
                    label=label,
                    density=True,
                )
            axes.set(xlabel="learned probability to keep a unit", title=f"behind the {place} hidden layer", xlim=(0, 1))
        panels[0].set_ylabel("density of units")
        panels[0].legend(loc="upper left")
    caption = "The entropy of the masks counts for less where there are more images, and fewer units are dropped."
    return Figure("keeps.png", caption)


def doubtful(folder: Path, looks: Mapping[str, Sequence[Look]]) -> tuple[Figure, ...]:
    """Images, and beside each what the draws believe."""
    texts = {
        "real": "Test digits: two of the clearest, and the two with most doubt.",
        "synthetic": "Images that are no digit, or no longer one: there is doubt where the probability is spread, or "
        "differs widely from draw to draw.",
    }
    return tuple(_page(folder / f"{name}.png", looks[name], text) for name, text in texts.items())


def _page(path: Path, looks: Sequence[Look], text: str) -> Figure:
    with drawing(path, width=9.0, height=1.5 * len(looks)) as figure:
        grid = figure.subplots(len(looks), 2, squeeze=False, width_ratios=(1, 4))
        for (picture, bars), look in zip(grid, looks, strict=True):
            picture.imshow(look.image.numpy(), cmap="gray_r", vmin=0.0, vmax=1.0)
            picture.set_axis_off()
            bars.bar(range(10), look.mean.numpy(), yerr=look.spread.numpy(), color=BLUE, ecolor=GREY, capsize=2)
            bars.set(ylim=(0.0, 1.05), xticks=range(10))
            bars.set_title(f"{look.label}: entropy {look.entropy:.2f} nats", fontsize=10)
        grid[-1][1].set_xlabel("class")
    return Figure(
        path.name, f"{text} Bars: probability of each class, averaged over 1000 draws, ± one standard deviation."
    )
