"""Pictures of a variational autoencoder: arrays in, axes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from torch import Tensor

from credo.reports.style import BLACK, BLUE, COLORS, GRAY, GREEN, ORANGE, PURPLE, RED, SKY

Array = NDArray[Any]

GAP = 1
"""Pixels between two images of a mosaic."""
MARKERS = "osD^vPX*<>"
"""One for each class, so that no class is known by its color alone."""
CLASS_COLORS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK, GRAY)
"""Those of the palette that small letters can be read in."""
SHOWN_DIMENSIONS = 64
"""Latent dimensions in a figure, at most."""


def displayable(x: Tensor) -> Array | None:
    """Images (N, H, W), or (N, H, W, 3) in color, from 0 to 1; None where x (N, ...) holds no images.

    Channels may come first or last. Numbers beyond 0 and 1 are stretched between their least and their largest.
    """
    values = x.detach().cpu().float()
    if values.ndim == 4 and values.shape[1] in (1, 3) and values.shape[-1] not in (1, 3):
        values = values.movedim(1, -1)
    if values.ndim == 4 and values.shape[-1] == 1:
        values = values.squeeze(-1)
    if not (values.ndim == 3 or (values.ndim == 4 and values.shape[-1] == 3)) or min(values.shape[1:3]) < 2:
        return None
    low, high = values.min(), values.max()
    if low < 0.0 or high > 1.0:
        values = (values - low) / (high - low).clamp_min(torch.finfo(torch.float32).tiny)
    return np.asarray(values.numpy())


def mosaic(images: Array, columns: int) -> Array:
    """Images (N, H, W) or (N, H, W, 3) side by side, RGBA, row by row; what lies between them is transparent."""
    rows, (height, width) = -(-len(images) // columns), images.shape[1:3]
    ink = images if images.ndim == 4 else np.repeat(1.0 - images[..., None], 3, axis=-1)
    canvas = np.zeros((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 4))
    for i, image in enumerate(ink):
        top, left = i // columns * (height + GAP), i % columns * (width + GAP)
        canvas[top : top + height, left : left + width, :3] = image.clip(0.0, 1.0)
        canvas[top : top + height, left : left + width, 3] = 1.0
    return canvas


def show(axes: Axes, images: Array, columns: int, title: str = "") -> None:
    """A mosaic without axes; dark is a large value."""
    axes.imshow(mosaic(images, columns), interpolation="nearest")
    axes.set_axis_off()
    axes.set_title(title)


def pairs(axes: Axes, before: Array, after: Array, title: str = "") -> None:
    """Images above, and below each what became of it."""
    show(axes, np.concatenate([before, after]), len(before), title)


def by_class(axes: Axes, points: Array, labels: Sequence[str] | None, axis: str) -> None:
    """Points (N, 2) by the name of their class, where they have one."""
    names = sorted(set(labels)) if labels is not None else [""]
    short = all(0 < len(name) <= 2 and name.isalnum() for name in names)
    for i, name in enumerate(names):
        rows = np.array([labels is None or labels[k] == name for k in range(len(points))])
        marker, size = (f"${name}$", 26) if short else (MARKERS[i % len(MARKERS)], 9)
        color = CLASS_COLORS[i % len(CLASS_COLORS)]
        axes.scatter(
            points[rows, 0], points[rows, 1], c=color, s=size, marker=marker, alpha=0.8, linewidths=0, label=name
        )
    axes.set(xlabel=f"{axis} 1", ylabel=f"{axis} 2")
    if labels is not None:
        axes.legend(
            title="class", markerscale=1.5, ncols=1 + (len(names) > 12), loc="center left", bbox_to_anchor=(1, 0.5)
        )


def dimensions(axes: Axes, kl: Tensor, active: Tensor) -> None:
    """Nats that each latent dimension carries, the largest first, and whether it is active."""
    order = kl.argsort(descending=True)[:SHOWN_DIMENSIONS]
    values, used = kl[order].cpu().numpy(), active[order].cpu().numpy()
    places = 1 + np.arange(len(values))
    axes.bar(places[used], values[used], color=BLUE, label=f"carries information ({int(active.sum())})")
    if not used.all():
        axes.bar(places[~used], values[~used], color=RED, hatch="///", label=f"idle ({int((~active).sum())})")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="latent dimension, the largest first", ylabel="KL to the prior (nats)")
    axes.legend()


def bound_curve(axes: Axes, history: Sequence[Mapping[str, float]]) -> None:
    """The bound per example by epoch, in training and, where there are held-out examples, on these.

    The first epochs, in which it rises steeply, leave the picture.
    """
    lines = (("bound", "in training", BLUE), ("validation_bound", "held out", RED))
    seen: list[float] = []
    for name, label, color in lines:
        rows = [(row["epoch"], row[name]) for row in history if name in row]
        if rows:
            axes.plot(*zip(*rows, strict=True), color=color, label=label)
            seen += [value for _, value in rows[len(rows) // 20 :]]
    if seen and max(seen) > min(seen):
        room = 0.05 * (max(seen) - min(seen))
        axes.set_ylim(min(seen) - room, max(seen) + room)
    axes.set(xlabel="epoch", ylabel="bound per example (nats)")
    axes.legend(loc="lower right")


def scores(axes: Axes, found: Mapping[str, Tensor], unit: str) -> None:
    """Histograms of one number for each example, by the kind of example."""
    values = torch.cat([each.cpu().double() for each in found.values()])
    low, high = (float(values.quantile(q)) for q in (0.002, 0.998))
    for (name, each), color, style in zip(found.items(), COLORS, ("-", "--", ":", "-."), strict=False):
        shown = each.cpu().double().clamp(low, high).numpy()
        axes.hist(shown, bins=50, range=(low, high), density=True, histtype="stepfilled", color=color, alpha=0.25)
        axes.hist(
            shown, bins=50, range=(low, high), density=True, histtype="step", color=color, linestyle=style, label=name
        )
    axes.set_ylim(0.0, 1.3 * axes.get_ylim()[1])  # room for the legend
    axes.set(xlabel=unit, ylabel="density of images")
    axes.legend(loc="upper left")
