"""The samplers on the sine: they walk through the posterior itself, where the other methods approximate it."""

from __future__ import annotations

import math

from credo.experiments.base import Size
from credo.experiments.sine.entry import Entry
from credo.experiments.sine.problem import START_SCALE, variational_net
from credo.methods import HMC, NUTS, SGHMC, SGLD, ImportanceSampling, Method, Metropolis, RMSPreconditioner
from credo.priors import Normal
from credo.reports.style import BLUE, GREY, ORANGE, PURPLE, RED, SKY

PRIOR = Normal(scale=START_SCALE)
"""As wide as the assignment's mixture, and smooth, which trajectories like."""

IMPORTANCE, METROPOLIS, HAMILTONIAN, NO_U_TURN = "importance-sampling", "metropolis", "hmc", "nuts"


def samplers(size: Size) -> tuple[Entry, ...]:
    """The methods by which draws come from the posterior, or from the prior and are weighted."""
    full = size is Size.FULL
    return (
        _entry(
            IMPORTANCE,
            "Importance sampling",
            GREY,
            ImportanceSampling(draws=50_000 if full else 5_000, lanes=1000),
            "draws from the prior, weighted by how well they fit: a handful of them has all the weight.",
            remark="Of all draws from the prior\na handful has all the weight.",
            draws=500,
        ),
        _entry(
            METROPOLIS,
            "Metropolis",
            ORANGE,
            Metropolis(draws=1000 if full else 50, warmup=1000 if full else 100, chains=4, thin=20),
            "a random walk in 481 dimensions: slow, and its chains still disagree outside when the run is over.",
        ),
        _entry(
            HAMILTONIAN,
            "Hamiltonian Monte Carlo",
            BLUE,
            _hamiltonian(full),
            "four chains that agree: this is the posterior. It expects slopes to go on, with doubt that grows.",
        ),
        _entry(
            NO_U_TURN,
            "NUTS",
            PURPLE,
            NUTS(draws=200, warmup=200, chains=4) if full else NUTS(draws=30, warmup=50, chains=4, max_depth=6),
            "as Hamiltonian Monte Carlo, with trajectories that find their length themselves.",
        ),
        _entry("sgld", "SGLD", SKY, _langevin(full), "gradient steps with noise: near, where steps are small enough."),
        _entry(
            "sghmc", "SGHMC", RED, _stochastic(full), "the same with momentum, which takes it further in as many steps."
        ),
    )


def _entry(
    name: str, label: str, colour: str, method: Method, caption: str, *, remark: str = "", draws: int | None = None
) -> Entry:
    return Entry(name, label, colour, method, variational_net, PRIOR, draws, caption, remark)


def _hamiltonian(full: bool) -> HMC:
    if full:
        return HMC(draws=300, warmup=300, chains=4, length=math.pi / 2)
    return HMC(draws=30, warmup=50, chains=4, length=0.4)


def _langevin(full: bool) -> SGLD:
    epochs = 12_000 if full else 1_000
    preconditioner = RMSPreconditioner()
    return SGLD(epochs, learning_rate=3e-3, batch_size=None, draws=100, chains=4, preconditioner=preconditioner)


def _stochastic(full: bool) -> SGHMC:
    return SGHMC(12_000 if full else 1_000, learning_rate=1e-3, batch_size=None, draws=100, chains=4)
