"""A page for chosen images: what each method makes of them, whether the alarm rings, which pixels raise the doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from matplotlib.figure import Figure
from torch import Tensor

from credo.core.arrays import tensor
from credo.posteriors import Posterior
from credo.predictive import ClassPredictive
from credo.reports.inline import svg
from credo.reports.style import BLUE, GRAY, RED
from credo.reports.template import filled
from credo.uncertainty import Alarm, Doubt, doubt_gradient, score

DRAWN = 200
"""Draws that are shown as points at most."""
CLASSES = 20
"""Classes that are shown at most: the most probable ones."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What one method makes of one image.

    Attributes:
        method: its name.
        mean: averaged probabilities, (K,).
        by_draw: those of single draws, (S, K).
        doubt: the score.
        threshold: above which the alarm rings.
    """

    method: str
    mean: Tensor
    by_draw: Tensor
    doubt: float
    threshold: float

    @property
    def rings(self) -> bool:
        return self.doubt > self.threshold


@dataclass(frozen=True, eq=False)
class ImageCard:
    """One image with everything that is said of it.

    Attributes:
        name: what a person calls it.
        picture: (H, W) or (H, W, 3), from 0 to 1.
        answers: of each method.
        pixels: how strongly each pixel moves the doubt, (H, W); None where no method has draws that can disagree.
        by: the method to which the pixels belong.
    """

    name: str
    picture: Tensor
    answers: Sequence[Answer]
    pixels: Tensor | None = None
    by: str = ""


def doubt_report(
    path: str | Path,
    images: Any,
    posteriors: Mapping[str, Posterior],
    held_out: Any,
    *,
    classes: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    doubt: Doubt | str = Doubt.ENTROPY,
    rate: float = 0.05,
    draws: int | None = None,
    title: str = "Known or unknown?",
) -> dict[str, Alarm]:
    """Write a page of HTML about some images, and return the alarms that it used, by method.

    Args:
        path: of the page; one file, which needs nothing else.
        images: (B, C, H, W) or (B, H, W), as the networks take them.
        posteriors: over classes, by the names that the page gives them.
        held_out: known images that no network was trained on; the thresholds are chosen by them.
        classes: names of the classes.
        names: of the images.
        doubt: the measure that the alarm listens to, as in `uncertainty.score`.
        rate: of false alarms.
        draws: functions that are drawn; None for each posterior's own choice.
        title: of the page.

    Examples:
        `doubt_report("doubt.html", strange, {"ensemble": posterior}, held_out)`
    """
    if not posteriors:
        raise ValueError("there is no posterior to ask: give them by name, as in {'ensemble': posterior}")
    x = tensor(images, "images")
    if x.ndim not in (3, 4) or len(x) == 0:
        raise ValueError(f"images has shape {tuple(x.shape)}: it must be (B, C, H, W) or (B, H, W) with one at least")
    if names is not None and len(names) != len(x):
        raise ValueError(f"names has {len(names)} entries for {len(x)} images: they must be the same number")
    alarms, predictions = {}, {}
    for name, posterior in posteriors.items():
        predictions[name] = _classes(posterior.predict(x, draws), name)
        alarms[name] = Alarm.of(score(posterior.predict(held_out, draws), doubt), rate)
    labels = list(classes) if classes is not None else None
    found = next(iter(predictions.values())).probs.shape[-1]
    if labels is not None and len(labels) != found:
        raise ValueError(f"classes has {len(labels)} names, and there are {found} classes")
    labels = labels or [str(k) for k in range(found)]
    pixels, by = _pixels(x, posteriors, predictions, draws)
    answers = {name: (p, score(p, doubt), alarms[name].threshold) for name, p in predictions.items()}
    cards = [
        ImageCard(
            names[i] if names is not None else f"image {i + 1}",
            _picture(x[i], x),
            [_answer(name, i, *found) for name, found in answers.items()],
            None if pixels is None else pixels[i],
            by,
        )
        for i in range(len(x))
    ]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(page(cards, labels, str(Doubt(doubt)), rate, title), encoding="utf-8")
    return alarms


def page(cards: Sequence[ImageCard], classes: Sequence[str], doubt: str, rate: float, title: str) -> str:
    """The page as HTML."""
    shown = [
        {
            "name": card.name,
            "drawing": _drawing(f"image-{number}", card, classes),
            "answers": [
                {
                    "method": each.method,
                    "label": classes[int(each.mean.argmax())],
                    "probability": f"{float(each.mean.max()):.0%}",
                    "doubt": f"{each.doubt:.3g}",
                    "threshold": f"{each.threshold:.3g}",
                    "rings": each.rings,
                }
                for each in card.answers
            ],
            "by": card.by if card.pixels is not None else "",
        }
        for number, card in enumerate(cards)
    ]
    return filled(
        "doubt.html.jinja",
        title=title,
        cards=shown,
        doubt=doubt,
        rate=f"{100 * rate:g} %",
    )


def _classes(prediction: Any, name: str) -> ClassPredictive:
    if not isinstance(prediction, ClassPredictive) or not prediction.likelihood.exclusive:
        raise TypeError(f"the page is about one of K classes for each image, and {name!r} predicts something else")
    return prediction


def _pixels(
    x: Tensor, posteriors: Mapping[str, Posterior], predictions: Mapping[str, ClassPredictive], draws: int | None
) -> tuple[Tensor | None, str]:
    """|d mutual information / d pixel|, (B, H, W), over channels, of the first method whose draws can disagree."""
    for name, posterior in posteriors.items():
        if len(predictions[name].draws) > 1:
            gradient = doubt_gradient(posterior, x, draws=draws).abs().cpu()
            return (gradient.sum(1) if gradient.ndim == 4 else gradient), name
    return None, ""


def _answer(name: str, image: int, prediction: ClassPredictive, doubts: Tensor, threshold: float) -> Answer:
    each = prediction.likelihood.mean(prediction.draws[:DRAWN, image : image + 1], prediction.params)
    return Answer(name, prediction.probs[image].cpu(), each[:, 0].cpu(), float(doubts[image]), threshold)


def _picture(image: Tensor, images: Tensor) -> Tensor:
    """From 0 to 1, by the range of all images that are shown."""
    low, high = float(images.min()), float(images.max())
    scaled = ((image.float().cpu() - low) / max(high - low, 1e-12)).clamp(0.0, 1.0)
    if scaled.ndim == 2:
        return scaled
    return scaled.permute(1, 2, 0) if len(scaled) == 3 else scaled.mean(0)


def _drawing(name: str, card: ImageCard, classes: Sequence[str]) -> str:
    """The picture, the pixels that raise the doubt, and the bars of each method."""
    rows = len(card.answers)
    order = torch.stack([each.mean for each in card.answers]).mean(0).argsort(descending=True)[:CLASSES].sort().values

    def draw(figure: Figure) -> None:
        grid = figure.add_gridspec(rows + 1, 2, height_ratios=[1.5, *[1.0] * rows])
        _image(figure.add_subplot(grid[0, 0]), card.picture, "picture", None)
        if card.pixels is not None:
            _image(figure.add_subplot(grid[0, 1]), card.pixels, "what raises the doubt", "magma")
        for row, each in enumerate(card.answers, start=1):
            axes = figure.add_subplot(grid[row, :])
            _bars(axes, each, order)
            last = row == rows
            axes.set_xticks(range(len(order)), [classes[int(k)] for k in order] if last else [])
            if last and max(len(classes[int(k)]) for k in order) > 2:
                axes.tick_params(axis="x", rotation=40)

    label = f"{card.name}: probabilities of the classes by {', '.join(each.method for each in card.answers)}"
    return svg(name, label, draw, height=1.9 + 1.2 * rows)


def _image(axes: Any, pixels: Tensor, title: str, colors: str | None) -> None:
    values = pixels.numpy()
    axes.imshow(values, cmap=colors or ("gray" if values.ndim == 2 else None), vmin=0.0, vmax=None if colors else 1.0)
    axes.set_title(title, loc="center", fontsize=10)
    axes.set_axis_off()


def _bars(axes: Any, answer: Answer, order: Tensor) -> None:
    color = RED if answer.rings else BLUE
    axes.bar(range(len(order)), answer.mean[order].tolist(), color=color, alpha=0.35, width=0.7)
    draws = len(answer.by_draw)
    if draws > 1:
        shifts = 0.5 * (numpy.arange(draws) + 0.5) / draws - 0.25
        for place, k in enumerate(order.tolist()):
            axes.plot(place + shifts, answer.by_draw[:, k].numpy(), ".", color=color, markersize=3, alpha=0.7)
    axes.axhline(0.0, color=GRAY, linewidth=0.8)
    axes.set(ylim=(-0.03, 1.03), ylabel=answer.method)
