"""The No-U-Turn sampler, for all chains at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_at_least
from credo.methods.base import Kept
from credo.methods.mcmc.density import Density
from credo.methods.mcmc.hamiltonian import HamiltonianSampler, HamiltonianState, Moved
from credo.methods.mcmc.leapfrog import Place, WithGradient
from credo.methods.mcmc.metric import Metric
from credo.methods.mcmc.tree import Tree, grow_subtree, joined

WORTH_LEAVING = 3
"""Depth from which on chains that have stopped are left behind: for smaller subtrees the copying costs more."""


def no_u_turn(
    density: WithGradient,
    place: Place,
    momentum: Tensor,
    step: float,
    metric: Metric,
    max_depth: int,
    generator: torch.Generator,
    of: Callable[[Tensor], WithGradient] | None = None,
) -> Tree:
    """One transition of all chains: trajectories that double until they turn back on themselves.

    Args:
        density: log density with gradient.
        place: where the chains are.
        momentum: fresh white momenta, (C, P).
        step: of the leapfrog integrator.
        metric: of the momenta.
        max_depth: doublings at most.
        generator: of directions and choices.
        of: gives the density of some chains by their numbers, where it differs between chains.

    Returns:
        The trees, whose `draw` is the next state of each chain.
    """
    tree = Tree.seed(place, momentum)
    origin = tree.energy
    for depth in range(max_depth):
        chains, kind, device = len(origin), origin.dtype, origin.device
        forward = torch.rand(chains, generator=generator, dtype=kind, device=device) < 0.5
        uniform = torch.rand((2**depth + 1, chains), generator=generator, dtype=kind, device=device)
        lanes = tree.growing.nonzero().squeeze(1)
        if len(lanes) == 0:
            break
        if len(lanes) < chains and depth >= WORTH_LEAVING:
            theirs = density if of is None else of(lanes)
            part = _doubled(
                theirs, tree.take(lanes), origin[lanes], step, metric, depth, forward[lanes], uniform[:, lanes]
            )
            tree = tree.put(lanes, part)
        else:
            grown = _doubled(density, tree, origin, step, metric, depth, forward, uniform)
            tree = grown if len(lanes) == chains else tree.put(lanes, grown.take(lanes))
    return tree


def _doubled(
    density: WithGradient,
    tree: Tree,
    origin: Tensor,
    step: float,
    metric: Metric,
    depth: int,
    forward: Tensor,
    uniform: Tensor,
) -> Tree:
    sign = torch.where(forward, 1.0, -1.0).to(origin.dtype).unsqueeze(1)
    edge = tree.right.where(forward, tree.left).turned(sign)
    new = grow_subtree(density, edge, origin, step, metric, depth, uniform[1:])
    return joined(tree, new, forward, sign, uniform[0])


@dataclass(frozen=True)
class NUTS(HamiltonianSampler):
    """The No-U-Turn sampler: Hamiltonian trajectories that end by themselves, with nothing to set.

    A trajectory doubles, forward or backward in time at random, until it or one of its halves begins to turn back; the
    next state is drawn from it with probabilities proportional to exp(-H), later halves preferred.

    Args:
        max_depth: doublings at most: a trajectory has up to 2^max_depth - 1 leapfrog steps.

    Reference: M. Hoffman, A. Gelman, "The No-U-Turn sampler", 2014, https://arxiv.org/abs/1111.4246;
        M. Betancourt, "A conceptual introduction to Hamiltonian Monte Carlo", 2017, https://arxiv.org/abs/1701.02434;
        D. Phan, N. Pradhan, M. Jankowiak, "Composable effects for flexible and accelerated probabilistic programming
        in NumPyro", 2019, https://arxiv.org/abs/1912.11554 (the iterative tree)

    Example:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> model = credo.Model(torch.nn.Linear(1, 1), credo.likelihoods.Gaussian(0.1))
        >>> posterior = credo.fit(model, (x, 2 * x), credo.NUTS(draws=100, warmup=100))
        >>> posterior.chains, posterior.length
        (4, 100)
    """

    max_depth: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("max_depth", self.max_depth, 1)

    def move(
        self, density: Density, place: Place, state: HamiltonianState, generator: torch.Generator, iteration: int
    ) -> tuple[Moved, tuple[()]]:
        position, metric, step = place.position, state.adaptation.metric, state.adaptation.search.step
        momentum = torch.randn(position.shape, generator=generator, dtype=position.dtype, device=position.device)
        tree = no_u_turn(density.with_gradient, place, momentum, step, metric, self.max_depth, generator, density.of)
        acceptance = tree.acceptance / tree.leaves.clamp_min(1.0)
        return Moved(tree.draw, acceptance, tree.diverging, tree.energy, tree.leaves, tree.depth), ()

    def notes(self, kept: Kept) -> tuple[str, ...]:
        depth = kept.statistics.get("tree_depth")
        full = 0 if depth is None else int((depth >= self.max_depth).sum())
        if depth is None or full <= 0.01 * depth.numel():
            return super().notes(kept)
        sentence = (
            f"{full} of {depth.numel()} trajectories were cut off at max_depth={self.max_depth} before they turned: "
            "the draws are right but slow to forget; give more warmup, dense=True for a few hundred weights, or a "
            "larger max_depth"
        )
        return (*super().notes(kept), sentence)
