"""Evidences, the choices by them, and their tables."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from credo.core.record import CredoWarning
from credo.experiments.base import Progress, Size, Table, uninterrupted
from credo.experiments.evidence.problem import (
    DEGREES,
    SHAPES,
    SMALL,
    Sets,
    annealed,
    log_symmetries,
    network,
    polynomial,
    polynomial_data,
    powers_of,
    regression,
    small,
    small_laplace,
    trained,
    wave,
)
from credo.fit import fit
from credo.loop.progress import Listener
from credo.methods import Laplace, Method
from credo.model import Model
from credo.posteriors import Evidence, LaplaceGaussian, Weighted


@dataclass(frozen=True)
class Polynomials:
    """Log evidence by degree: in closed form, and by Laplace."""

    exact: tuple[float, ...]
    laplace: tuple[float, ...]


@dataclass(frozen=True)
class NetworkScore:
    """What one network reached: log evidence by Laplace, log likelihood per held-out target, weights."""

    name: str
    evidence: float
    held_out: float
    weights: int
    effective: float


@dataclass(frozen=True)
class SmallScore:
    """Log evidence of a small network: by Laplace at its best mode, with its symmetries, and by annealing."""

    units: int
    laplace: float
    annealed: Evidence

    @property
    def with_symmetries(self) -> float:
        return self.laplace + log_symmetries(self.units)


def polynomials(seed: int) -> Polynomials:
    """Both evidences of every degree."""
    x, y = polynomial_data(seed)
    exact, ours = [], []
    for degree in DEGREES:
        model = regression(x, y, degree)
        data = (powers_of(x, degree), y.unsqueeze(1))
        method = Laplace(structure="dense", precision="model", batch_size=None)
        found = fit(polynomial(model), data, method, progress=False)
        assert isinstance(found, LaplaceGaussian)
        exact.append(model.log_evidence)
        ours.append(found.log_evidence.value)
    return Polynomials(tuple(exact), tuple(ours))


def networks(size: Size, seed: int, progress: Progress) -> list[NetworkScore]:
    """Each network by the best of its runs."""
    data, found = wave(seed), []
    for shape in SHAPES[size]:
        name = "-".join(map(str, (1, *shape, 1)))
        best = _best(network(shape), data, trained(size), seed, progress.of(name))
        held_out = float(best.predict(data.x_new).log_prob(data.y_new).mean())
        weights = sum(block.layout.size for block in best.blocks)
        found.append(NetworkScore(name, float(best.evidence), held_out, weights, float(best.effective)))
    return found


def small_networks(size: Size, seed: int, progress: Progress) -> list[SmallScore]:
    """Laplace beside annealed importance sampling."""
    data, found = wave(seed), []
    for units in SMALL[size]:
        best = _best(small(units), data, small_laplace(size), seed, progress.of(f"{units} units: Laplace"))
        listener = progress.of(f"{units} units: annealing")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredoWarning)
            posterior = uninterrupted(fit(small(units), (data.x, data.y), annealed(size), seed=seed, progress=listener))
        assert isinstance(posterior, Weighted)
        found.append(SmallScore(units, float(best.evidence), posterior.log_evidence))
    return found


def _best(model: Model, data: Sets, method: Method, seed: int, listener: Listener) -> LaplaceGaussian:
    """The run of the largest evidence."""
    posterior = uninterrupted(fit(model, (data.x, data.y), method, seed=seed, progress=listener))
    assert isinstance(posterior, LaplaceGaussian)
    return posterior.of_members(posterior.evidence.argmax().reshape(1))


def numbers(lines: Polynomials, nets: Sequence[NetworkScore], few: Sequence[SmallScore]) -> dict[str, float]:
    """The numbers of the claims."""
    exact, ours = torch.tensor(lines.exact), torch.tensor(lines.laplace)
    chosen = max(nets, key=lambda score: score.evidence)
    return {
        "linear-gap": float((exact - ours).abs().max()),
        "linear-choice": float(exact.argmax()),
        "network-regret": max(score.held_out for score in nets) - chosen.held_out,
        "network-line": chosen.evidence - nets[0].evidence,
        "annealing-gap": max(abs(score.with_symmetries - score.annealed.value) for score in few),
    }


def tables(lines: Polynomials, nets: Sequence[NetworkScore], few: Sequence[SmallScore]) -> tuple[Table, ...]:
    """One for each part."""
    first = Table(
        "Log evidence of polynomials",
        ("degree", "closed form", "Laplace"),
        tuple(zip(DEGREES, lines.exact, lines.laplace, strict=True)),
        "40 points of a cubic. A linear model has no other curvature than that at its mode: Laplace is exact.",
    )
    second = Table(
        "Networks by their evidence",
        ("network", "log evidence", "held-out log lik.", "weights", "determined"),
        tuple((n.name, n.evidence, n.held_out, n.weights, n.effective) for n in nets),
        "80 points of a wave. Prior and noise by the evidence, the best of several runs; 1000 held-out targets.",
    )
    third = Table(
        "Log evidence of small networks",
        ("units", "Laplace", "+ symmetries", "annealed", "± s.e."),
        tuple((f.units, f.laplace, f.with_symmetries, f.annealed.value, f.annealed.standard_error) for f in few),
        "A normal knows one mode; h units of tanh have 2^h h! that are the same function, which annealing counts.",
    )
    return first, second, third
