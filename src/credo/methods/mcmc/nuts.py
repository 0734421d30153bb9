"""The No-U-Turn sampler, for all chains at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_at_least
from credo.core.trees import flatten, map_tensors
from credo.kernels import ValueAndGradient
from credo.methods.base import SampledStates
from credo.methods.mcmc.hamiltonian import DIVERGENCE, HamiltonianSampler, HamiltonianState, Moved
from credo.methods.mcmc.integrators import ChainState, Metric, leapfrog
from credo.methods.mcmc.log_density import LogDensity


@dataclass(frozen=True)
class Edge:
    """One end of a trajectory: the state and the momentum there, (C, P)."""

    chains: ChainState
    momentum: Tensor

    def where(self, chosen: Tensor, other: Edge) -> Edge:
        momentum = torch.where(chosen.unsqueeze(1), self.momentum, other.momentum)
        return Edge(self.chains.where(chosen, other.chains), momentum)

    def turned(self, sign: Tensor) -> Edge:
        """The same end, seen in the direction of the signs, (C, 1): going back in time is going on with -r."""
        return Edge(self.chains, self.momentum * sign)


@dataclass(frozen=True)
class Tree:
    """Trajectories of C chains."""

    left: Edge  # the end that lies backward in time
    right: Edge  # the end that lies forward
    draw: ChainState  # the state chosen so far
    energy: Tensor  # H of that state, (C,)
    log_weight: Tensor  # log of the sum of exp(H_0 - H) over all states, (C,)
    momentum: Tensor  # sum of the momenta of all states, (C, P)
    growing: Tensor  # whether neither a turn nor a divergence has been seen, (C,)
    diverging: Tensor  # (C,)
    depth: Tensor  # doublings that were kept, (C,)
    acceptance: Tensor  # sum over leaves of min(1, exp(H_0 - H)), (C,)
    leaves: Tensor  # number of these, (C,)

    @staticmethod
    def seed(chains: ChainState, momentum: Tensor) -> Tree:
        """The tree of one state."""
        edge, energy = Edge(chains, momentum), chains.energy(momentum)
        zero = torch.zeros_like(energy)
        no = torch.zeros_like(energy, dtype=torch.bool)
        return Tree(edge, edge, chains, energy, zero, momentum, ~no, no, zero, zero, zero)

    def take(self, active: Tensor) -> Tree:
        """The trees of some chains."""
        return map_tensors(lambda _, t: t[active], self)

    def put(self, active: Tensor, part: Tree) -> Tree:
        """These trees, with those of some chains replaced."""
        new = flatten(part)
        return map_tensors(lambda path, t: t.index_copy(0, active, new[path]), self)


@dataclass(frozen=True)
class Subtree:
    """2^depth new states beyond one end of a tree."""

    last: Edge  # the farthest state
    first: Tensor  # the momentum of the nearest one, (C, P)
    draw: ChainState  # the state chosen among them, with probability proportional to exp(-H)
    energy: Tensor  # H of that state
    log_weight: Tensor  # log sum exp(H_0 - H), (C,)
    momentum: Tensor  # sum of momenta, (C, P)
    whole: Tensor  # whether all leaves were reached without turn or divergence, (C,)
    diverging: Tensor  # (C,)
    acceptance: Tensor  # sum of acceptance probabilities, (C,)
    leaves: Tensor  # number of leaves reached, (C,)


def turning(first: Tensor, last: Tensor, total: Tensor) -> Tensor:
    """The generalized U-turn: whether an end's momentum points against the sum of all momenta between the ends.

    Reference: M. Betancourt, "A conceptual introduction to Hamiltonian Monte Carlo", 2017, appendix A.4.2,
        https://arxiv.org/abs/1701.02434
    """
    return (torch.linalg.vecdot(first, total) <= 0) | (torch.linalg.vecdot(last, total) <= 0)


class TreeCheckpoints:
    """Momenta that later leaves are compared with: at most one for each level of a balanced binary tree.

    A leaf with an odd number closes as many balanced subtrees as its number has trailing ones. The leaves with which
    these began were stored at neighboring slots, which is all that the comparison needs.

    Attributes:
        first: momentum of the leaf with which a subtree begins, (slots, C, P).
        before: momentum of the leaf before it.
        until: sum of the momenta of all leaves before it.
    """

    def __init__(self, slots: int, like: Tensor) -> None:
        self.first, self.before, self.until = like.new_zeros((3, max(slots, 1), *like.shape)).unbind(0)

    def store(self, leaf: int, momentum: Tensor, before: Tensor, until: Tensor) -> None:
        slot = (leaf >> 1).bit_count()
        self.first[slot], self.before[slot], self.until[slot] = momentum, before, until

    def turned(self, leaf: int, momentum: Tensor, total: Tensor) -> Tensor:
        """Whether a subtree that this leaf closes has turned, (C,); and likewise between its two halves."""
        closed = _trailing_ones(leaf)
        low, high = (leaf >> closed).bit_count(), (leaf >> 1).bit_count()
        first, until = self.first[low : high + 1], self.until[low : high + 1]
        turned = turning(first, momentum, total - until).any(0)
        if low == high:
            return turned
        # the middle of each larger subtree is where the next smaller one begins
        middle, before, halfway = self.first[low + 1 : high + 1], self.before[low + 1 : high + 1], until[1:]
        turned |= turning(first[:-1], middle, halfway - until[:-1] + middle).any(0)
        return turned | turning(before, momentum, total - halfway + before).any(0)


def _trailing_ones(number: int) -> int:
    return (~number & (number + 1)).bit_length() - 1


def grow_subtree(
    value_and_gradient: ValueAndGradient,
    edge: Edge,
    origin: Tensor,
    step: float,
    metric: Metric,
    depth: int,
    uniform: Tensor,
) -> Subtree:
    """2^depth leaves beyond an edge, in the direction of its momentum.

    H_0 = `origin` is the energy where the whole trajectory began, (C,); the numbers `uniform`, (2^depth, C), choose
    among the leaves.
    """
    checkpoints = TreeCheckpoints(depth, edge.momentum)
    going = torch.ones_like(origin, dtype=torch.bool)
    total = torch.zeros_like(edge.momentum)
    draw, drawn_energy, first = edge.chains, origin, edge.momentum
    log_weight, zero = torch.full_like(origin, -torch.inf), torch.zeros_like(origin)
    diverging, acceptance, leaves = ~going, zero, zero
    for leaf in range(2**depth):
        chains, momentum = leapfrog(value_and_gradient, edge.chains, edge.momentum, step, metric)
        energy = chains.energy(momentum)
        log_new = torch.where(energy.isnan(), -torch.inf, origin - energy)
        acceptance = acceptance + torch.where(going, log_new.exp().clamp_max(1.0), 0.0)
        leaves = leaves + going
        broken = log_new < -DIVERGENCE
        diverging = diverging | (going & broken)
        going = going & ~broken
        log_weight = torch.logaddexp(log_weight, log_new)
        chosen = uniform[leaf] < torch.exp(log_new - log_weight)
        draw = chains.where(chosen, draw)
        drawn_energy = torch.where(chosen, energy, drawn_energy)
        if leaf == 0:
            first = momentum
        if leaf % 2 == 0:
            checkpoints.store(leaf, momentum, edge.momentum, total)
        total = total + momentum
        if leaf % 2 == 1:
            going = going & ~checkpoints.turned(leaf, momentum, total)
        edge = Edge(chains, momentum)
        if not bool(going.any()):
            break
    return Subtree(edge, first, draw, drawn_energy, log_weight, total, going, diverging, acceptance, leaves)


def join(tree: Tree, new: Subtree, forward: Tensor, sign: Tensor, uniform: Tensor) -> Tree:
    """The tree with a subtree beyond one of its ends: kept where it is whole, thrown away where it is not.

    The new half is preferred: its draw is taken with probability min(1, W_new / W_old), which leaves the posterior
    as it is and moves farther than an even choice would.

    Args:
        tree: the old half.
        new: the new half, with momenta seen in the direction of growth.
        forward: whether it lies beyond the right end, (C,).
        sign: 1 where it does, -1 where not, (C, 1).
        uniform: (C,), in (0, 1).
    """
    ours, near = new.last.turned(sign), new.first * sign
    new_total, total = new.momentum * sign, tree.momentum + new.momentum * sign
    column = forward.unsqueeze(1)
    # the two halves in the order of time, for the checks between them
    inner = torch.where(column, tree.right.momentum, tree.left.momentum)
    outer = torch.where(column, tree.left.momentum, tree.right.momentum)
    turned = turning(outer, ours.momentum, total)
    turned |= turning(outer, near, tree.momentum + near)
    turned |= turning(inner, ours.momentum, new_total + inner)
    chosen = new.whole & (torch.log(uniform) < new.log_weight - tree.log_weight)
    return Tree(
        left=ours.where(new.whole & ~forward, tree.left),
        right=ours.where(new.whole & forward, tree.right),
        draw=new.draw.where(chosen, tree.draw),
        energy=torch.where(chosen, new.energy, tree.energy),
        log_weight=torch.where(new.whole, torch.logaddexp(tree.log_weight, new.log_weight), tree.log_weight),
        momentum=torch.where(new.whole.unsqueeze(1), total, tree.momentum),
        growing=tree.growing & new.whole & ~turned,
        diverging=tree.diverging | new.diverging,
        depth=tree.depth + new.whole,
        acceptance=tree.acceptance + new.acceptance,
        leaves=tree.leaves + new.leaves,
    )


DEPTH_TO_COMPACT = 3
"""Depth from which on chains that have stopped are left behind: for smaller subtrees the copying costs more."""


def no_u_turn(
    value_and_gradient: ValueAndGradient,
    chains: ChainState,
    momentum: Tensor,
    step: float,
    metric: Metric,
    max_depth: int,
    generator: torch.Generator,
    of: Callable[[Tensor], ValueAndGradient] | None = None,
) -> Tree:
    """One transition of all chains: trajectories that double until they turn back on themselves.

    `of` gives the density of some chains by their numbers, where it differs between chains.

    Returns:
        The trees, whose `draw` is the next state of each chain.
    """
    tree = Tree.seed(chains, momentum)
    origin = tree.energy
    for depth in range(max_depth):
        count, kind, device = len(origin), origin.dtype, origin.device
        forward = torch.rand(count, generator=generator, dtype=kind, device=device) < 0.5
        uniform = torch.rand((2**depth + 1, count), generator=generator, dtype=kind, device=device)
        active = tree.growing.nonzero().squeeze(1)
        if len(active) == 0:
            break
        if len(active) < count and depth >= DEPTH_TO_COMPACT:
            theirs = value_and_gradient if of is None else of(active)
            part = _double(
                theirs, tree.take(active), origin[active], step, metric, depth, forward[active], uniform[:, active]
            )
            tree = tree.put(active, part)
        else:
            grown = _double(value_and_gradient, tree, origin, step, metric, depth, forward, uniform)
            tree = grown if len(active) == count else tree.put(active, grown.take(active))
    return tree


def _double(
    value_and_gradient: ValueAndGradient,
    tree: Tree,
    origin: Tensor,
    step: float,
    metric: Metric,
    depth: int,
    forward: Tensor,
    uniform: Tensor,
) -> Tree:
    sign = torch.where(forward, 1.0, -1.0).to(tree.momentum.dtype).unsqueeze(1)
    edge = tree.right.where(forward, tree.left).turned(sign)
    new = grow_subtree(value_and_gradient, edge, origin, step, metric, depth, uniform[1:])
    return join(tree, new, forward, sign, uniform[0])


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

    Examples:
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
        self,
        log_density: LogDensity,
        chains: ChainState,
        state: HamiltonianState,
        generator: torch.Generator,
        iteration: int,
    ) -> tuple[Moved, tuple[()]]:
        position, metric, step = chains.position, state.adaptation.metric, state.adaptation.search.step
        momentum = torch.randn(position.shape, generator=generator, dtype=position.dtype, device=position.device)
        tree = no_u_turn(
            log_density.value_and_gradient, chains, momentum, step, metric, self.max_depth, generator, log_density.of
        )
        acceptance = tree.acceptance / tree.leaves.clamp_min(1.0)
        return Moved(tree.draw, acceptance, tree.diverging, tree.energy, tree.leaves, tree.depth), ()

    def notes(self, states: SampledStates) -> tuple[str, ...]:
        depth = states.statistics.get("tree_depth")
        full = 0 if depth is None else int((depth >= self.max_depth).sum())
        if depth is None or full <= 0.01 * depth.numel():
            return super().notes(states)
        sentence = (
            f"{full} of {depth.numel()} trajectories were cut off at max_depth={self.max_depth} before they turned: "
            "the draws are right but slow to forget; give more warmup, dense=True for a few hundred weights, or a "
            "larger max_depth"
        )
        return (*super().notes(states), sentence)
