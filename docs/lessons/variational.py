"""The divergence, the bound and its gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributions import Normal

from credo.reports.style import BLACK, BLUE, GRAY, GREEN, ORANGE, PURPLE, RED, drawing
from lessons.blocks import results


def divergence(path: Path) -> None:
    """The integrands of both directions, and what each makes of a density with two peaks."""
    page = results("divergence")
    x, q, p = page["x"], page["q"], page["p"]
    log_q, log_p = q.log_prob(x), p.log_prob(x)
    with drawing(path, 11.0, 3.6) as figure:
        left, middle, right = figure.subplots(1, 3)
        directions = ((left, "KL(q || p)", log_q, log_p, "forward"), (middle, "KL(p || q)", log_p, log_q, "backward"))
        for axes, name, first, second, value in directions:
            integrand = first.exp() * (first - second)
            axes.plot(x, log_q.exp(), color=BLUE, label="q")
            axes.plot(x, log_p.exp(), color=ORANGE, label="p")
            axes.fill_between(x, integrand, where=(integrand > 0).numpy(), color=GREEN, alpha=0.4, linewidth=0)
            axes.fill_between(x, integrand, where=(integrand < 0).numpy(), color=RED, alpha=0.4, linewidth=0)
            axes.set(title=f"{name} = {float(page[value]):.2f}", xlim=(-4, 5), xlabel="x")
            axes.legend(loc="upper right")
        left.set_ylabel("density, and the integrand (filled)")
        _two_peaks(right, page)


def _two_peaks(axes: Any, page: dict[str, Any]) -> None:
    """The nearest normals to a mixture, found on a fine grid of means and scales."""
    x, log_p = (
        page["x"],
        torch.logaddexp(
            np.log(0.65) + Normal(-2.0, 0.7).log_prob(page["x"]), np.log(0.35) + Normal(2.2, 0.9).log_prob(page["x"])
        ),
    )
    means, scales = torch.meshgrid(torch.linspace(-4, 4, 81), torch.linspace(0.3, 3.5, 65), indexing="ij")
    normals = Normal(means.double().reshape(-1, 1), scales.double().reshape(-1, 1))
    log_q = normals.log_prob(x)
    axes.plot(x, log_p.exp(), color=BLACK, linestyle="--", label="p")
    found = (
        ("KL(q || p)", page["divergence"](log_q, log_p), BLUE),
        ("KL(p || q)", page["divergence"](log_p, log_q), PURPLE),
    )
    for name, value, color in found:
        best = log_q[int(value.argmin())]
        axes.plot(x, best.exp(), color=color, label=f"nearest by {name}")
    axes.set(title="one normal for two peaks", xlim=(-6, 6), ylim=(0, 0.75), xlabel="x")
    axes.legend(loc="upper right")


def family(path: Path) -> None:
    """The divergence over the family of normals with the optimizer's path, and q on the way."""
    page = results("divergence")
    route = np.array(page["path"])
    means, logs = torch.meshgrid(
        torch.linspace(-4, 4, 81).double(), torch.linspace(-1.2, 1.2, 61).double(), indexing="ij"
    )
    values = page["kl_of"](means, logs)
    places = (0, 25, 60, 399)
    colors = (GRAY, ORANGE, GREEN, BLUE)
    with drawing(path, 10.0, 3.9) as figure:
        left, right = figure.subplots(1, 2)
        levels = (0.1, 0.2, 0.5, 1, 2, 5, 10)
        lines = left.contour(means, logs, values, levels, cmap="Greys_r", vmax=40)
        left.clabel(lines, fontsize=8)
        left.plot(route[:, 0], route[:, 1], color=BLUE)
        x = page["x"]
        right.plot(x, page["posterior"].log_prob(x).exp(), color=BLACK, linestyle="--", label="posterior")
        for place, color in zip(places, colors, strict=True):
            mean, log_scale, value = route[place]
            left.plot(mean, log_scale, "o", color=color, markersize=7)
            density = Normal(mean, np.exp(log_scale)).log_prob(x).exp()
            right.plot(x, density, color=color, label=f"q after {place + (place == 399)} steps, KL {value:.2f}")
        left.set(title="KL(q || posterior) of every normal q", xlabel="mean of q", ylabel="log of the scale of q")
        right.set(title="q on its way", xlim=(-7, 6), ylim=(0, 1.05), xlabel="weight", ylabel="density")
        right.legend(loc="upper left")


def elbo(path: Path) -> None:
    """ln p(D) = ELBO + KL while q is trained, and the two terms of the bound."""
    page = results("elbo")
    fit, price, gap = np.array(page["training"]).T
    steps, evidence = np.arange(len(fit)), page["log_evidence"]
    with drawing(path, 10.0, 3.7) as figure:
        left, right = figure.subplots(1, 2)
        left.axhline(evidence, color=BLACK, linestyle="--", label="ln p(D)")
        left.plot(steps, fit - price, color=BLUE, label="ELBO")
        left.fill_between(steps, fit - price, evidence, color=ORANGE, alpha=0.3, label="KL(q || posterior)")
        left.set(
            title=f"a gap of {gap[-1]:.2f} remains", xlabel="step", ylabel="nats", ylim=(evidence - 12, evidence + 1)
        )
        left.legend(loc="lower right")
        right.plot(steps, fit, color=GREEN, label="fit: E[ln p(D | w)]")
        right.plot(steps, price, color=RED, label="price: KL(q || prior)")
        right.set(title="the two terms of the bound", xlabel="step", ylabel="nats", ylim=(-25, 6))
        right.legend(loc="lower right")
