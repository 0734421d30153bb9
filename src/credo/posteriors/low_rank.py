"""Normal weights whose covariance is a diagonal and a few directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from credo.core.checks import whole_number
from credo.core.rng import Stream
from credo.core.trees import Params, Variables, members_of
from credo.posteriors.base import Posterior
from credo.posteriors.draws import Draws, dealt
from credo.posteriors.functions import NetworkFunctions

DRAWS = 30
"""Functions of each member when not said."""


@dataclass(frozen=True, eq=False)
class LowRankGaussian(Posterior):
    """A normal distribution over the weights around a path of iterates, or an equal mixture of M of them.

    q(w) = N(mean, diag(scale^2) + sum_k column_k column_k^T)

    A network with batch norm needs running statistics for each weight that it is given. They were computed at the end
    of training for a fixed number of draws, so that there are no others: `seed` chooses among these.

    Attributes:
        mean: expectations, (M, *shape) each, and the buffers, with the statistics of batch norm at the mean.
        scale: square roots of the diagonal, (M, *shape) each.
        columns: directions, (M, K, *shape) each.
        statistics: of batch norm, for the fixed draws, (M, S, *shape) each; empty for networks without batch norm.
        noise: a number for each member, from which its fixed draws are made, (M,).
    """

    mean: Variables
    scale: Params
    columns: Mapping[str, Tensor]
    statistics: Mapping[str, Tensor]
    noise: Tensor

    @property
    def fixed(self) -> int | None:
        """S, the number of draws of a member that there are statistics of batch norm for; None for no limit."""
        return next(iter(self.statistics.values())).shape[1] if self.statistics else None

    @property
    def default_draws(self) -> int:
        """Those that there are, or 30 of each member."""
        return (DRAWS if self.fixed is None else self.fixed) * self.mean.members

    def draw(self, count: int | None = None, seed: int = 0) -> NetworkFunctions:
        """`count` functions (30 of each member when not said), dealt to the members in turn."""
        members = self.mean.members
        count = self.default_draws if count is None else whole_number("count", count)
        if self.fixed is not None:
            self._check_fixed(count)
            chosen = Stream(seed, ("draw", "order")).permutation(self.fixed).tolist()
            variables = self.fixed_draws([(s % members, chosen[s // members]) for s in range(count)])
        else:
            stream = Stream(seed, ("draw", "weights"))
            variables = self._stacked([(s % members, stream.child(s)) for s in range(count)])
        return NetworkFunctions(self.model, variables, Draws.uniform(variables))

    def fixed_draws(self, which: Sequence[tuple[int, int]]) -> Variables:
        """The draws with these numbers (member, draw), with the statistics that belong to them."""
        drawn = self._stacked([(member, fixed_noise(self.noise[member], number)) for member, number in which])
        index = torch.tensor(which, device=self.device)
        own = {name: t[index[:, 0], index[:, 1]] for name, t in self.statistics.items()}
        return Variables(drawn.params, {**drawn.buffers, **own})

    def _stacked(self, which: Sequence[tuple[int, Stream]]) -> Variables:
        """A draw of a member by each stream."""
        numbers = [member for member, _ in which]
        params = {name: torch.empty_like(w[numbers]) for name, w in self.mean.params.items()}
        for row, (member, stream) in enumerate(which):
            for name, w in low_rank_draw(self.mean.params, self.scale, self.columns, member, stream).items():
                params[name][row] = w
        return Variables(params, {name: b[numbers] for name, b in self.mean.buffers.items()})

    def _check_fixed(self, count: int) -> None:
        assert self.fixed is not None
        if self.fixed == 0:
            raise ValueError(
                "the statistics of batch norm were not refreshed, because the run ended before its last pass over the "
                "data: there is nothing to draw yet. Continue it (resume=True), or use posterior.at_mean()"
            )
        total = self.fixed * self.mean.members
        if count > total:
            raise ValueError(
                f"there are {total} draws and {count} are asked for: the network has batch norm, whose statistics were "
                f"computed for {self.fixed} draws at the end of training. Ask for fewer, or train with "
                "SWAG(draws=...)"
            )

    def at_mean(self) -> Draws:
        """The plain network at the mean of the iterates (stochastic weight averaging): no spread."""
        return Draws(self.model, self.mean, Draws.uniform(self.mean), record=self.record)

    def members(self, count: int | None = None) -> Variables:
        return dealt(self.mean, count)

    def check(self) -> None:
        super().check()
        for name, mean in self.mean.params.items():
            scale, columns = self.scale.get(name), self.columns.get(name)
            if scale is None or scale.shape != mean.shape or scale.dtype != mean.dtype:
                raise ValueError(f"scale of {name!r} is not like its expectation")
            if columns is None or (columns.shape[:1], columns.shape[2:]) != (mean.shape[:1], mean.shape[1:]):
                raise ValueError(f"columns of {name!r} are not like its expectation")
            if bool((scale < 0).any()):
                raise ValueError(f"scale of {name!r} is negative in places")
        for name, statistic in self.statistics.items():
            like = self.mean.buffers.get(name)
            if like is None or (statistic.shape[:1], statistic.shape[2:]) != (like.shape[:1], like.shape[1:]):
                raise ValueError(f"the statistics hold {name!r}, which is no buffer of the network of this shape")
        sizes = {t.shape[1] for t in self.statistics.values()}
        ranks = {t.shape[1] for t in self.columns.values()}
        if len(sizes) > 1 or len(ranks) > 1 or tuple(self.noise.shape) != (self.mean.members,):
            raise ValueError("the draws, columns and members are not as many everywhere")

    def kl(self) -> NoReturn:
        """Refused: the path of the iterates is no attempt to be near a posterior in this sense."""
        raise ValueError(
            "kl() compares a variational posterior with its prior, and SWAG describes the path of gradient ascent; for "
            "a comparison of models use held-out log likelihood, or Laplace's log_evidence"
        )


def fixed_noise(number: Tensor, draw: int) -> Stream:
    """Of a member's draws that batch norm has statistics for."""
    return Stream(int(number), ("swag", draw))


def low_rank_draw(mean: Params, scale: Params, columns: Mapping[str, Tensor], member: int, stream: Stream) -> Params:
    """One draw of a member, (*shape) each: mean + scale * noise + sum_k noise_k column_k.

    The noise is drawn on the CPU, so that it is the same wherever the tensors are.
    """
    generator, rank = stream.generator(), next(iter(columns.values())).shape[1]
    like = next(iter(mean.values()))
    along = torch.randn(rank, generator=generator, dtype=like.dtype).to(like.device)

    def one(name: str) -> Tensor:
        noise = torch.randn(mean[name].shape[1:], generator=generator, dtype=mean[name].dtype).to(mean[name].device)
        return mean[name][member] + scale[name][member] * noise + torch.tensordot(along, columns[name][member], 1)

    return {name: one(name) for name in mean}


def empty_columns(params: Params, rank: int) -> Params:
    """Room for so many directions, (M, K, *shape) each."""
    return {name: w.new_zeros(members_of(params), rank, *w.shape[1:]) for name, w in params.items()}
