"""The methods that are compared: to add one, add a line to `ENTRIES`."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from credo.core.optimizers import Cosine
from credo.experiments.base import Size
from credo.experiments.judge.problems import MOONS, SINE
from credo.methods import (
    HMC,
    MAP,
    MCLMC,
    SGHMC,
    SGLD,
    BayesByBackprop,
    ConcreteDropout,
    DeepEnsemble,
    ImportanceSampling,
    MCDropout,
    Method,
    Metropolis,
    RMSPreconditioner,
)
from credo.reports.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY

QUARTER = math.pi / 2
"""Length of a trajectory: a quarter of the period of a standard normal, after which a push is forgotten."""

SHORTEST = 50
"""Iterations of warm-up at least."""
QUICK_DRAWS, FULL_DRAWS = 30, 500
"""Of each of the judge's chains."""


@dataclass(frozen=True)
class Entry:
    """A method that is held against the judge.

    Attributes:
        name: for the command line.
        label: for people.
        colour: in figures.
        make: the method with its numbers, for a problem by name and a size.
        draws: functions drawn for a prediction; None for all that the posterior has.
    """

    name: str
    label: str
    colour: str
    make: Callable[[str, Size], Method]
    draws: int | None = None


def the_judge(draws: int) -> HMC:
    """The judge: four chains of Hamiltonian Monte Carlo, with so many draws of each."""
    return HMC(draws=draws, warmup=max(draws, SHORTEST), chains=4, length=QUARTER)


def _epochs(problem: str, size: Size) -> int:
    return (600 if problem == SINE else 400) if size is Size.QUICK else (3000 if problem == SINE else 1500)


def _map(problem: str, size: Size) -> Method:
    return MAP(_epochs(problem, size), learning_rate=0.01, batch_size=None, schedule=Cosine())


def _ensemble(problem: str, size: Size) -> Method:
    members = 10 if size is Size.QUICK else 20
    epochs = _epochs(problem, size)
    return DeepEnsemble(members, epochs=epochs, learning_rate=0.01, batch_size=None, schedule=Cosine())


def _variational(problem: str, size: Size) -> Method:
    epochs = 2 * _epochs(problem, size)
    return BayesByBackprop(epochs, learning_rate=0.02, batch_size=None, schedule=Cosine(), initial_scale=0.05)


def _dropout(problem: str, size: Size) -> Method:
    return MCDropout(_epochs(problem, size), learning_rate=0.01, batch_size=None, schedule=Cosine(), rate=0.1)


def _concrete(problem: str, size: Size) -> Method:
    return ConcreteDropout(_epochs(problem, size), learning_rate=0.01, batch_size=None)


def _langevin(problem: str, size: Size) -> Method:
    # the slopes of the sine's weights differ so much that one step size for all of them would take for ever
    rate, scaled = (0.1, None) if problem == MOONS else (3e-3, RMSPreconditioner())
    epochs = 4 * _epochs(problem, size)
    return SGLD(epochs, learning_rate=rate, batch_size=None, draws=100, chains=4, preconditioner=scaled)


def _stochastic(problem: str, size: Size) -> Method:
    rate = 0.1 if problem == MOONS else 1e-3
    return SGHMC(4 * _epochs(problem, size), learning_rate=rate, batch_size=None, draws=100, chains=4)


def _metropolis(problem: str, size: Size) -> Method:
    count = 100 if size is Size.QUICK else 1000
    return Metropolis(draws=count, warmup=count, chains=4, thin=20)


def _microcanonical(problem: str, size: Size) -> Method:
    count = 50 if size is Size.QUICK else 500
    return MCLMC(draws=count, warmup=count, chains=4)


def _importance(problem: str, size: Size) -> Method:
    return ImportanceSampling(draws=2000 if size is Size.QUICK else 50_000, lanes=1000)


ENTRIES = (
    Entry("map", "MAP", PURPLE, _map),
    Entry("ensemble", "deep ensemble", GREEN, _ensemble),
    Entry("vi", "Bayes by Backprop", BLUE, _variational, draws=500),
    Entry("dropout", "MC dropout", RED, _dropout, draws=500),
    Entry("concrete", "concrete dropout", ORANGE, _concrete, draws=500),
    Entry("sgld", "SGLD", SKY, _langevin),
    Entry("sghmc", "SGHMC", SKY, _stochastic),
    Entry("mclmc", "MCLMC", SKY, _microcanonical),
    Entry("metropolis", "Metropolis", GREY, _metropolis),
    Entry("importance", "importance sampling", GREY, _importance, draws=1000),
)
"""Every method that is compared, in the order of the table."""


def chosen(names: Sequence[str]) -> tuple[Entry, ...]:
    """The methods of these names, in the order of the table.

    Raises:
        ValueError: there is no such method; the sentence names the nearest ones.
    """
    known = {entry.name: entry for entry in ENTRIES}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"there is no method {name!r} to compare: {advice}")
    return tuple(entry for entry in ENTRIES if entry.name in names)
