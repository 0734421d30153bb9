"""A network of two-valued weights, and three criteria on one problem."""

from __future__ import annotations

from pathlib import Path

import torch

from credo.reports.style import BLACK, BLUE, GREEN, ORANGE, RED, drawing
from lessons.blocks import results


def two_valued(path: Path) -> None:
    """All 4096 weight vectors in order, the exact prediction, and the doubt of three approximations beside it."""
    page = results("posterior")
    grid, mean, stddev = page["grid"], page["mean"], page["stddev"]
    with drawing(path, 11.0, 3.8) as figure:
        left, middle, right = figure.subplots(1, 3)
        ordered = page["exact"].sort(descending=True).values
        left.plot(range(1, 4097), ordered, color=BLUE)
        left.set(xscale="log", yscale="log", ylim=(1e-12, 1), xlabel="weight vectors, most probable first")
        left.set(title="p(w | D) of all 4096", ylabel="probability")
        middle.fill_between(grid, mean - 2 * stddev, mean + 2 * stddev, color=BLUE, alpha=0.25, label="± 2 std. dev.")
        middle.plot(grid, mean, color=BLUE, label="mean")
        middle.plot(page["x"], page["y"], "o", color=BLACK, markersize=5, label="data")
        middle.set(title="exact prediction", xlabel="x", ylabel="f(x)")
        middle.legend(loc="upper left")
        right.plot(grid, stddev, color=BLACK, linewidth=3, alpha=0.35, label="exact")
        ways = (
            ("by_importance", f"importance, {page['effective']:.0f} of 300 draws of use", ORANGE, "--"),
            ("by_metropolis", "Metropolis, 3000 steps", GREEN, "-."),
            ("by_variation", "twelve independent coins", RED, ":"),
        )
        for name, label, color, line in ways:
            values, weight = page[name]
            spread = (weight @ (values - weight @ values).square()).sqrt()
            right.plot(grid, spread, color=color, linestyle=line, label=label)
        right.set(title="standard deviation of f(x)", xlabel="x", ylim=(0, None))
        top = float(torch.as_tensor(stddev).max())
        right.set_ylim(0, 1.9 * top)
        right.legend(loc="upper center")


def criteria(path: Path) -> None:
    """Class probabilities over the plane: maximum likelihood, MAP and Bayes."""
    page = results("criteria")
    axis = torch.linspace(-6, 6, 121, dtype=torch.float64)
    points = torch.cartesian_prod(axis, axis)
    steep = page["likeliest"].variables.params["weight"][0, 0]
    shown = (
        ("maximum likelihood", torch.sigmoid(points @ steep)),
        ("MAP", torch.sigmoid(points @ page["map_weights"])),
        ("Bayes", page["bayes"](points)),
    )
    with drawing(path, 11.0, 3.9) as figure:
        panels = figure.subplots(1, 3, sharey=True)
        for axes, (name, probs) in zip(panels, shown, strict=True):
            square = probs.reshape(121, 121).T
            plane = (axis.numpy(), axis.numpy(), square.numpy())
            field = axes.pcolormesh(*plane, cmap="PuOr_r", vmin=0, vmax=1, shading="gouraud")
            lines = axes.contour(axis, axis, square, (0.1, 0.5, 0.9), colors=BLACK, linewidths=1)
            axes.clabel(lines, fmt=lambda p: f"{p:.0%}", fontsize=8)
            for label, marker, color in ((1, "o", ORANGE), (0, "s", BLUE)):
                chosen = page["x"][page["y"] == label]
                axes.plot(chosen[:, 0], chosen[:, 1], marker, color=color, markeredgecolor="white", markersize=7)
            axes.set(title=name, xlabel="x₁")
            axes.grid(visible=False)
        panels[0].set_ylabel("x₂")
        figure.colorbar(field, ax=list(panels), label="probability of the orange class", shrink=0.9)
