"""The figures of dropout on a thousand images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from torch import Tensor

from credo.experiments.base import Figure
from credo.experiments.dropout_mnist1k.beliefs import Beliefs, ImageBelief
from credo.experiments.dropout_mnist1k.measure import Accuracy
from credo.reports.style import BLUE, GRAY, ORANGE, RED, drawing


def accuracies(folder: Path, rows: Sequence[Accuracy]) -> Figure:
    """Every repetition's accuracy, naive and by draws, beside the published mean and its standard deviation."""
    with drawing(folder / "accuracy.png", height=0.9 + 0.75 * len(rows)) as figure:
        axes = figure.subplots()
        for place, row in enumerate(reversed(rows)):
            for claim, values, color, up in zip(
                row.published, (row.naive, row.sampled), (ORANGE, BLUE), (0.14, -0.14), strict=True
            ):
                if claim is not None and isinstance(claim.published, float):
                    bar = claim.published - claim.low
                    axes.errorbar(claim.published, place + up, xerr=bar, fmt="s", color=GRAY, capsize=3)
                axes.plot(values, [place + up] * len(values), "o", color=color, alpha=0.8)
        axes.plot([], [], "o", color=ORANGE, label="weights at their expectation")
        axes.plot([], [], "o", color=BLUE, label="average of 100 draws")
        axes.plot([], [], "s", color=GRAY, label="Lee's table")
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
            for (label, keep), color in zip(found.items(), (BLUE, RED), strict=False):
                axes.hist(
                    keep[layer].flatten().numpy(),
                    40,
                    range=(0.0, 1.0),
                    color=color,
                    alpha=0.6,
                    label=label,
                    density=True,
                )
            axes.set(xlabel="learned probability to keep a unit", title=f"behind the {place} hidden layer", xlim=(0, 1))
        panels[0].set_ylabel("density of units")
        panels[0].legend(loc="upper left")
    caption = "The entropy of the masks counts for less where there are more images, and fewer units are dropped."
    return Figure("keeps.png", caption)


def doubtful(folder: Path, beliefs: Beliefs) -> tuple[Figure, ...]:
    """Images, and beside each what the draws of one method believe."""
    texts = {
        "real": "Test digits: two of the clearest, and the two with most doubt.",
        "synthetic": "Images that are no digit, or no longer one: there is doubt where the probability is spread, or "
        "differs widely from draw to draw.",
    }
    images = {"real": beliefs.real, "synthetic": beliefs.synthetic}
    return tuple(_page(folder / f"{name}.png", images[name], text) for name, text in texts.items())


def side_by_side(folder: Path, methods: Sequence[Beliefs]) -> Figure:
    """The synthetic images, and beside each what the draws of every method believe."""
    count = len(methods[0].synthetic)
    with drawing(folder / "methods.png", width=10.0, height=1.5 * count) as figure:
        grid = figure.subplots(count, 1 + len(methods), squeeze=False, width_ratios=(1, *(3,) * len(methods)))
        for line, (picture, *panels) in enumerate(grid):
            picture.imshow(methods[0].synthetic[line].image.numpy(), cmap="gray_r", vmin=0.0, vmax=1.0)
            picture.set_axis_off()
            for axes, method in zip(panels, methods, strict=True):
                _bars(axes, method.synthetic[line])
                axes.set_title(f"{method.label}: {method.synthetic[line].entropy:.2f} nats", fontsize=10)
                axes.tick_params(labelleft=axes is panels[0])
            panels[0].set_ylabel("probability")
        for axes in grid[-1][1:]:
            axes.set_xlabel("class")
    caption = (
        "The same images for each method, with the entropy of the mean; bars: mean ± standard deviation of 1000 draws."
    )
    return Figure("methods.png", caption)


def _bars(axes: Axes, belief: ImageBelief) -> None:
    axes.bar(range(10), belief.mean.numpy(), yerr=belief.spread.numpy(), color=BLUE, ecolor=GRAY, capsize=2)
    axes.set(ylim=(0.0, 1.05), xticks=range(10))


def _page(path: Path, beliefs: Sequence[ImageBelief], text: str) -> Figure:
    with drawing(path, width=9.0, height=1.5 * len(beliefs)) as figure:
        grid = figure.subplots(len(beliefs), 2, squeeze=False, width_ratios=(1, 4))
        for (picture, bars), belief in zip(grid, beliefs, strict=True):
            picture.imshow(belief.image.numpy(), cmap="gray_r", vmin=0.0, vmax=1.0)
            picture.set_axis_off()
            _bars(bars, belief)
            bars.set_ylabel("probability")
            bars.set_title(f"{belief.label}: entropy {belief.entropy:.2f} nats", fontsize=10)
        grid[-1][1].set_xlabel("class")
    return Figure(
        path.name, f"{text} Bars: probability of each class, averaged over 1000 draws, ± one standard deviation."
    )
