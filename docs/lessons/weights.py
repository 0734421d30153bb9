"""One weight under each method, positive scales, and masks that can be differentiated."""

from __future__ import annotations

from pathlib import Path

import torch
from sklearn.datasets import load_digits

import credo
from credo.reports.style import BLACK, BLUE, GRAY, GREEN, ORANGE, RED, drawing
from lessons.blocks import results

NAME, PLACE = "layers.3.weight", 2
"""The weight that is shown: from the third hidden unit to the output."""


def one_weight(path: Path) -> None:
    """The distribution of one weight under five methods."""
    page = results("one-weight")
    fitted, model, x, y = (page[name] for name in ("fitted", "model", "x", "y"))
    values = {name: posterior.members().params[NAME].flatten(1)[:, PLACE] for name, posterior in fitted.items()}
    nuts = credo.fit(model, (x, y), credo.NUTS(draws=1000, warmup=500, chains=2), start=fitted["MAP"])
    cloud = nuts.members().params[NAME].flatten(1)[:, PLACE].numpy()
    q = fitted["Bayes by Backprop"]
    center = float(values["Bayes by Backprop"][0])
    scale = float(q.scale[NAME].flatten(1)[0, PLACE])
    with drawing(path, 11.5, 3.0) as figure:
        panels = figure.subplots(1, 5)
        fixed, dropped, normal, members, chains = panels
        fixed.stem([float(values["MAP"][0])], [1.0], linefmt=GRAY, basefmt=" ")
        fixed.set(title="MAP: one number", ylim=(0, 1.1), ylabel="probability")
        kept = float(values["MC dropout"][0]) / 0.9
        dropped.stem([0.0, kept], [0.1, 0.9], linefmt=ORANGE, basefmt=" ")
        dropped.set(title="MC dropout: two", ylim=(0, 1.1))
        grid = torch.linspace(center - 4 * scale, center + 4 * scale, 200)
        normal.fill_between(grid, torch.distributions.Normal(center, scale).log_prob(grid).exp(), color=BLUE, alpha=0.4)
        normal.set(title="Bayes by Backprop", ylabel="density")
        members.stem(values["deep ensemble"].tolist(), [0.2] * 5, linefmt=GREEN, basefmt=" ")
        members.set(title="ensemble: five", ylim=(0, 1.1))
        chains.hist(cloud, 50, density=True, color=RED, alpha=0.6)
        chains.set(title="NUTS: 2000 draws")
        for axes in panels:
            axes.set_xlabel("weight")


def softplus(path: Path) -> None:
    """ReLU, softplus and its derivative; the relaxed Bernoulli at three temperatures."""
    page = results("one-weight")
    rho = torch.linspace(-6, 6, 241)
    with drawing(path, 10.0, 3.5) as figure:
        left, right = figure.subplots(1, 2)
        left.plot(rho, torch.nn.functional.softplus(rho), color=BLUE, label="softplus(ρ)")
        left.plot(rho, torch.relu(rho), color=BLACK, linestyle="--", label="ReLU(ρ)")
        left.plot(rho, torch.sigmoid(rho), color=ORANGE, label="derivative of softplus")
        left.set(title="a positive scale", xlabel="ρ", ylabel="σ")
        left.legend(loc="upper left")
        for temperature, color in ((1.0, GREEN), (0.1, ORANGE), (0.01, BLUE)):
            draws = page["relaxed"](temperature).numpy()
            right.hist(draws, 50, (0, 1), histtype="step", color=color, weights=[1 / len(draws)] * len(draws))
            right.plot([], [], color=color, label=f"temperature {temperature:g}")
        right.set(
            title="relaxed Bernoulli, probability 0.8", xlabel="ε", ylabel="share of draws (log scale)", yscale="log"
        )
        right.legend(loc="upper center")


def weight_decay(path: Path) -> None:
    """Functions drawn by dropout masks under three priors."""
    page = results("dropout")
    grid = torch.linspace(-2, 2, 200)[:, None]
    with drawing(path, 11.0, 3.5) as figure:
        panels = figure.subplots(1, 3, sharey=True)
        for axes, (name, posterior) in zip(panels, page["fitted"].items(), strict=True):
            draws = posterior.predict(grid, draws=20).draws[..., 0]
            axes.plot(grid.flatten(), draws.T, color=BLUE, alpha=0.35, linewidth=0.8)
            axes.plot(page["x"].flatten(), page["y"].flatten(), "o", color=BLACK, markersize=3)
            title = f"prior {name}: error {page['error'][name]:.2f}"
            axes.set(title=title, xlabel="x", xlim=(-2, 2), ylim=(-3, 3))
        panels[0].set_ylabel("f(x)")


def digits(path: Path) -> None:
    """Nine labeled images, as the notebook shows them before it trains."""
    data = load_digits()
    with drawing(path, 7.5, 1.3) as figure:
        for axes, image, label in zip(figure.subplots(1, 9), data.images[10:19], data.target[10:19], strict=True):
            axes.imshow(image, cmap="Greys")
            axes.axis("off")
            axes.set_title(str(label), loc="center")
