"""Samplers on a bent density of two weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from credo.reports.style import BLACK, BLUE, GRAY, GREEN, ORANGE, RED, drawing
from lessons.blocks import results


def sampling(path: Path) -> None:
    """Importance weights, a walk with its repeated states, trajectories, and cooling."""
    page = results("sampling")
    with drawing(path, 11.5, 3.7) as figure:
        panels = figure.subplots(1, 4, sharex=True, sharey=True)
        for axes in panels:
            _landscape(axes, page)
        importance, walk, rolling, cooling = panels
        w, weight = page["w"][:400], page["weight"][:400]
        importance.scatter(w[:, 0], w[:, 1], s=(4000 * weight).clamp(min=0.6), color=ORANGE, edgecolor="none")
        importance.set_title(f"importance sampling\n{page['effective']:.0f} of 2000 draws of use")
        places, counts = torch.unique_consecutive(page["draws"][:150, 0], dim=0, return_counts=True)
        walk.plot(places[:, 0], places[:, 1], color=GREEN, linewidth=0.8)
        walk.scatter(places[:, 0], places[:, 1], s=10 * counts, color=GREEN, edgecolor="none")
        walk.set_title("Metropolis\n150 steps of one chain")
        for line in page["rolled"][4:10]:
            rolling.plot(line[:, 0], line[:, 1], color=BLUE, linewidth=1.2)
            rolling.plot(*line[-1], "o", color=BLUE, markersize=5)
        rolling.set_title("Hamiltonian\n6 trajectories of 12 steps")
        route = page["cooling"][:, 0]
        cooling.scatter(route[:, 0], route[:, 1], c=np.arange(len(route)), cmap="Purples", vmin=-250, s=9)
        cooling.plot(*route[-1], "*", color=BLACK, markersize=11)
        cooling.set_title("annealing\nfrom hot (light) to cold (dark)")
        panels[0].set_ylabel("w₂")


def _landscape(axes: Any, page: dict[str, Any]) -> None:
    first, second = torch.linspace(-3.4, 3.4, 120), torch.linspace(-3, 8, 140)
    grid = torch.stack(torch.meshgrid(first, second, indexing="xy"), -1)
    density = page["log_density"](grid).exp()
    axes.contour(first.numpy(), second.numpy(), density.numpy(), (0.01, 0.1, 0.4, 0.8), colors=GRAY, linewidths=0.8)
    axes.set(xlabel="w₁", xlim=(-3.4, 3.4), ylim=(-3, 8))


def rejected(path: Path) -> None:
    """The marginal of the second weight by three chains, beside the exact one."""
    page = results("sampling")
    first, second = torch.linspace(-6, 6, 2001), torch.linspace(-2, 7, 181)
    grid = torch.stack(torch.meshgrid(first, second, indexing="xy"), -1)
    exact = page["log_density"](grid).exp().sum(1)
    exact = exact / exact.sum() / (second[1] - second[0])
    shown = (
        ("draws", "Metropolis", GREEN, "-"),
        ("twin", "accepted states only (wrong)", RED, "--"),
        ("by_hmc", "Hamiltonian", BLUE, "-."),
    )
    with drawing(path, 7.0, 3.6) as figure:
        axes = figure.subplots()
        axes.fill_between(second.numpy(), exact.numpy(), color=GRAY, alpha=0.3, linewidth=0, label="exact")
        for name, label, color, line in shown:
            values = page[name][..., 1].flatten().numpy()
            height, edges = np.histogram(values, 60, (-2, 7), density=True)
            axes.plot((edges[1:] + edges[:-1]) / 2, height, color=color, linestyle=line, label=label)
        axes.set(xlabel="w₂", ylabel="density", title="a rejected step counts the old state again")
        axes.legend(loc="upper right")
