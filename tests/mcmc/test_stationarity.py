"""Transitions from exact draws leave the law as it is; wrong ones do not.

Chains are one tensor axis, so thousands of them cost little: each starts at an exact draw, makes ten transitions, and
must still be one. A p-value below 1e-4 rejects: with six right samplers here, the seeds being fixed, the chance that
they were unlucky was 6e-4. Every wrong twin must be rejected at the same level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from credo.methods.mcmc import hamiltonian, hmc, mams, nuts
from credo.methods.mcmc.integrators import (
    ChainState,
    DenseMetric,
    DiagonalMetric,
    Metric,
    isokinetic_step,
    leapfrog,
    unit_vectors,
)

CHAINS, TRANSITIONS, LEVEL = 6_000, 10, 1e-4
PLAIN = DiagonalMetric(torch.tensor([0.8, 1.1]).double())
DENSE = DenseMetric(torch.tensor([[0.8, 0.0], [1.0, 0.5]]).double())


@dataclass(frozen=True)
class Accepted:
    """A transition that asks nobody."""

    chains: ChainState


def noise(generator: torch.Generator) -> Tensor:
    return torch.randn(CHAINS, 2, generator=generator, dtype=torch.float64)


def by_hmc(law: Callable, chains: ChainState, metric: Metric, generator: torch.Generator) -> ChainState:
    momentum, uniform = noise(generator), torch.rand(CHAINS, generator=generator, dtype=torch.float64)
    proposal = hamiltonian.hamiltonian_trajectory(law, chains, momentum, 0.5, metric, 3)
    return hmc.accept(chains, proposal, uniform, 3).chains


def by_nuts(law: Callable, chains: ChainState, metric: Metric, generator: torch.Generator) -> ChainState:
    return nuts.no_u_turn(law, chains, noise(generator), 0.35, metric, 6, generator).draw


def by_mams(law: Callable, chains: ChainState, metric: Metric, generator: torch.Generator) -> ChainState:
    direction, uniform = unit_vectors(noise(generator)), torch.rand(CHAINS, generator=generator, dtype=torch.float64)
    proposal = mams.microcanonical_trajectory(law, chains, direction, 0.9, metric, 3)
    return hmc.accept(chains, proposal, uniform, 3).chains


def p_value(transition: Callable, law: Callable, metric: Metric, seed: int = 0) -> float:
    chains, generator = law.chains(CHAINS, seed), torch.Generator().manual_seed(seed + 1)
    for _ in range(TRANSITIONS):
        chains = transition(law, chains, metric, generator)
    return law.p_value(chains.position)


@pytest.mark.parametrize("metric", [PLAIN, DENSE], ids=["diagonal", "dense"])
@pytest.mark.parametrize("transition", [by_hmc, by_nuts, by_mams])
def test_the_law_stays(transition: Callable, metric: Metric, law: Callable) -> None:
    assert p_value(transition, law, metric) > LEVEL


def test_without_a_test_of_acceptance_it_does_not(law: Callable) -> None:
    def always(law: Callable, chains: ChainState, metric: Metric, generator: torch.Generator) -> ChainState:
        return leapfrog(law, chains, noise(generator), 0.3, metric, 3)[0]

    assert p_value(always, law, PLAIN) < LEVEL


def test_microcanonical_steps_alone_do_not_leave_it(law: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hmc, "accept", lambda chains, proposal, uniform, count: Accepted(proposal.end))
    assert p_value(by_mams, law, PLAIN) < LEVEL


def test_an_energy_without_the_volume_that_steps_stretch_shows(law: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ratio of the densities alone decides, as for leapfrog steps, which stretch nothing."""
    right = isokinetic_step

    def without(density, chains, direction, step, metric):
        end, direction, _ = right(density, chains, direction, step, metric)
        return end, direction, chains.log_density - end.log_density

    monkeypatch.setattr(mams, "isokinetic_step", without)
    assert p_value(by_mams, law, PLAIN) < LEVEL


def wrong_sign(density, chains, momentum, step, metric, count=1):
    """The last half step of momentum goes the wrong way."""
    end, after = leapfrog(density, chains, momentum, step, metric, count)
    return end, metric.kick(after, end.gradient, -step)


def half_step_missing(density, chains, momentum, step, metric, count=1):
    """Momentum and position take whole steps in turn."""
    for _ in range(count):
        momentum = metric.kick(momentum, chains.gradient, step)
        chains = ChainState.at(metric.drift(chains.position, momentum, step), density)
    return chains, momentum


@pytest.mark.parametrize("wrong", [wrong_sign, half_step_missing])
@pytest.mark.parametrize("transition", [by_hmc, by_nuts])
def test_a_wrong_integrator_shows(
    transition: Callable, wrong: Callable, law: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hamiltonian, "leapfrog", wrong)
    monkeypatch.setattr(nuts, "leapfrog", wrong)
    assert p_value(transition, law, PLAIN) < LEVEL


def test_a_turn_judged_from_a_fixed_end_shows(law: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether to stop may depend on the trajectory, not on which of its states was the first."""
    right = nuts.join
    monkeypatch.setattr(nuts, "DEPTH_TO_COMPACT", 99)  # all chains stay, so that they can be compared with their start
    monkeypatch.setattr(nuts, "turning", lambda first, last, total: torch.zeros(total.shape[:-1], dtype=torch.bool))

    def from_the_start(law: Callable, chains: ChainState, metric: Metric, generator: torch.Generator) -> ChainState:
        def join(old, new, forward, sign, uniform):
            way = metric.whiten(new.last.chains.position - chains.position)
            ahead = torch.linalg.vecdot(way, new.last.momentum) > 0
            return replace(right(old, new, forward, sign, uniform), growing=old.growing & new.whole & ahead)

        monkeypatch.setattr(nuts, "join", join)
        return by_nuts(law, chains, metric, generator)

    assert p_value(from_the_start, law, PLAIN) < LEVEL


def test_keeping_a_subtree_that_turned_shows(law: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    right = nuts.join

    def kept(old, new, forward, sign, uniform):
        return right(old, replace(new, whole=torch.ones_like(new.whole)), forward, sign, uniform)

    monkeypatch.setattr(nuts, "join", kept)
    assert p_value(by_nuts, law, PLAIN) < LEVEL


def test_halves_chosen_without_their_weights_show(law: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """States must be drawn in proportion to exp(-H): a tree that takes its newest half whatever it weighs is biased."""
    right = nuts.join

    def newest(old, new, forward, sign, uniform):
        return right(old, new, forward, sign, torch.zeros_like(uniform))

    monkeypatch.setattr(nuts, "join", newest)
    assert p_value(by_nuts, law, PLAIN) < LEVEL


def test_leaves_chosen_with_equal_chances_show(law: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    right = nuts.grow_subtree

    def evenly(density, edge, origin, step, metric, depth, uniform):
        last_of_all = torch.linspace(0.0, 1.0, len(uniform)).round().double()
        return right(density, edge, origin, step, metric, depth, (1.0 - last_of_all).unsqueeze(1).expand_as(uniform))

    monkeypatch.setattr(nuts, "grow_subtree", evenly)
    assert p_value(by_nuts, law, PLAIN) < LEVEL
