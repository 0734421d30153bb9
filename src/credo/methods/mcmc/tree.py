"""The tree of a No-U-Turn trajectory, grown leaf by leaf for all chains at once.

All chains that still grow are at the same leaf of a subtree of the same depth, so leaf and depth are plain numbers and
only the decision to stop differs between chains: those that have stopped are left behind at the next doubling.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.trees import flatten, map_tensors
from credo.methods.mcmc.hamiltonian import DIVERGENCE
from credo.methods.mcmc.leapfrog import Place, WithGradient, leapfrog
from credo.methods.mcmc.metric import Metric


@dataclass(frozen=True)
class Edge:
    """One end of a trajectory: a place and the momentum there, (C, P)."""

    place: Place
    momentum: Tensor

    def where(self, chosen: Tensor, other: Edge) -> Edge:
        momentum = torch.where(chosen.unsqueeze(1), self.momentum, other.momentum)
        return Edge(self.place.where(chosen, other.place), momentum)

    def turned(self, sign: Tensor) -> Edge:
        """The same end, seen in the direction of the signs, (C, 1): going back in time is going on with -r."""
        return Edge(self.place, self.momentum * sign)


@dataclass(frozen=True)
class Tree:
    """Trajectories of C chains.

    Attributes:
        left: the end that lies backward in time.
        right: the end that lies forward.
        draw: the state chosen so far.
        energy: H of that state, (C,).
        log_weight: log of the sum of exp(H_0 - H) over all states, (C,).
        momentum: sum of the momenta of all states, (C, P).
        growing: whether neither a turn nor a divergence has been seen, (C,).
        diverging: (C,).
        depth: doublings that were kept, (C,).
        acceptance: sum over leaves of min(1, exp(H_0 - H)), (C,).
        leaves: number of these, (C,).
    """

    left: Edge
    right: Edge
    draw: Place
    energy: Tensor
    log_weight: Tensor
    momentum: Tensor
    growing: Tensor
    diverging: Tensor
    depth: Tensor
    acceptance: Tensor
    leaves: Tensor

    @staticmethod
    def seed(place: Place, momentum: Tensor) -> Tree:
        """The tree of one state."""
        edge, energy = Edge(place, momentum), place.energy(momentum)
        zero = torch.zeros_like(energy)
        no = torch.zeros_like(energy, dtype=torch.bool)
        return Tree(edge, edge, place, energy, zero, momentum, ~no, no, zero, zero, zero)

    def take(self, lanes: Tensor) -> Tree:
        """The trees of some chains."""
        return map_tensors(lambda _, t: t[lanes], self)

    def put(self, lanes: Tensor, part: Tree) -> Tree:
        """These trees, with those of some chains replaced."""
        new = flatten(part)
        return map_tensors(lambda path, t: t.index_copy(0, lanes, new[path]), self)


@dataclass(frozen=True)
class Subtree:
    """2^depth new states beyond one end of a tree.

    Attributes:
        last: the farthest state.
        first: the momentum of the nearest one, (C, P).
        draw: the state chosen among them, with probability proportional to exp(-H).
        energy: H of that state.
        log_weight: log sum exp(H_0 - H), (C,).
        momentum: sum of momenta, (C, P).
        whole: whether all leaves were reached without turn or divergence, (C,).
        diverging: (C,).
        acceptance: sum of acceptance probabilities, (C,).
        leaves: number of leaves reached, (C,).
    """

    last: Edge
    first: Tensor
    draw: Place
    energy: Tensor
    log_weight: Tensor
    momentum: Tensor
    whole: Tensor
    diverging: Tensor
    acceptance: Tensor
    leaves: Tensor


def dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.vecdot(a, b)


def turning(first: Tensor, last: Tensor, total: Tensor) -> Tensor:
    """The generalised U-turn: whether an end's momentum points against the sum of all momenta between the ends.

    Args:
        first: momentum at one end, (..., C, P).
        last: at the other.
        total: sum over all states of the trajectory, both ends included.

    Reference: M. Betancourt, "A conceptual introduction to Hamiltonian Monte Carlo", 2017, appendix A.4.2,
        https://arxiv.org/abs/1701.02434
    """
    return (dot(first, total) <= 0) | (dot(last, total) <= 0)


class Checkpoints:
    """Momenta that later leaves are compared with: at most one for each level of a balanced binary tree.

    A leaf with an odd number closes as many balanced subtrees as its number has trailing ones. The leaves with which
    these began were stored at neighbouring slots, which is all that the comparison needs.

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
    density: WithGradient, edge: Edge, origin: Tensor, step: float, metric: Metric, depth: int, uniform: Tensor
) -> Subtree:
    """2^depth leaves beyond an edge, in the direction of its momentum.

    Args:
        density: log density with gradient.
        edge: where to go on from.
        origin: H_0, the energy at the beginning of the whole trajectory, (C,).
        step: of the leapfrog integrator.
        metric: of the momenta.
        depth: of the subtree.
        uniform: numbers in (0, 1) that choose among the leaves, (2^depth, C).
    """
    checkpoints = Checkpoints(depth, edge.momentum)
    going = torch.ones_like(origin, dtype=torch.bool)
    total = torch.zeros_like(edge.momentum)
    draw, drawn_energy, first = edge.place, origin, edge.momentum
    log_weight, zero = torch.full_like(origin, -torch.inf), torch.zeros_like(origin)
    diverging, acceptance, leaves = ~going, zero, zero
    for leaf in range(2**depth):
        place, momentum = leapfrog(density, edge.place, edge.momentum, step, metric)
        energy = place.energy(momentum)
        log_new = torch.where(energy.isnan(), -torch.inf, origin - energy)
        acceptance = acceptance + torch.where(going, log_new.exp().clamp_max(1.0), 0.0)
        leaves = leaves + going
        broken = log_new < -DIVERGENCE
        diverging = diverging | (going & broken)
        going = going & ~broken
        log_weight = torch.logaddexp(log_weight, log_new)
        chosen = uniform[leaf] < torch.exp(log_new - log_weight)
        draw = place.where(chosen, draw)
        drawn_energy = torch.where(chosen, energy, drawn_energy)
        if leaf == 0:
            first = momentum
        if leaf % 2 == 0:
            checkpoints.store(leaf, momentum, edge.momentum, total)
        total = total + momentum
        if leaf % 2 == 1:
            going = going & ~checkpoints.turned(leaf, momentum, total)
        edge = Edge(place, momentum)
        if not bool(going.any()):
            break
    return Subtree(edge, first, draw, drawn_energy, log_weight, total, going, diverging, acceptance, leaves)


def joined(tree: Tree, new: Subtree, forward: Tensor, sign: Tensor, uniform: Tensor) -> Tree:
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
