"""Draws that chains have passed through, with what the sampler said of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from credo.core.checks import whole_number
from credo.core.convergence import verdict_on
from credo.core.optional import optional
from credo.core.trees import Variables
from credo.posteriors.base import Posterior
from credo.posteriors.draws import Draws, averaged, dealt
from credo.posteriors.functions import NetworkFunctions

LOG_LIKELIHOOD = "log_likelihood"


@dataclass(frozen=True, eq=False)
class Chains(Posterior):
    """Equally weighted draws of C chains, T of each.

    Attributes:
        variables: weights, (T * C, *shape) each: the draws of one step of all chains are neighbors.
        chain: number of the chain that each draw comes from, (T * C,).
        statistics: numbers per draw, (T, C) each: acceptance, energy and the like.
    """

    unbounded: ClassVar[tuple[str, ...]] = ("statistics",)

    variables: Variables
    chain: Tensor
    statistics: Mapping[str, Tensor]

    @staticmethod
    def numbered(variables: Variables, chains: int) -> Tensor:
        """`chain` for draws of so many chains."""
        return torch.arange(variables.members, device=variables.device) % chains

    @property
    def chains(self) -> int:
        """C."""
        return int(self.chain[-1]) + 1

    @property
    def length(self) -> int:
        """T, the draws of each chain."""
        return self.variables.members // self.chains

    def by_chain(self, values: Tensor) -> Tensor:
        """Values per draw, (T * C, ...), as ArviZ wants them: (C, T, ...)."""
        return values.reshape(self.length, self.chains, *values.shape[1:]).transpose(0, 1)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was noticed in the run, and whether the chains agree, so that no run ends in silence about it."""
        return (*self.record.notes, *self._verdicts)

    @cached_property
    def _verdicts(self) -> tuple[str, ...]:
        """The verdict by the log likelihood of the draws: a property of the functions, whatever the weights' order."""
        if LOG_LIKELIHOOD not in self.statistics:
            return ()
        values = self.statistics[LOG_LIKELIHOOD].T.double().cpu().numpy()
        try:
            verdict = verdict_on(values[:, :, None, None])
        except ImportError as error:
            return (f"whether the chains have converged is not known: {error}",)
        asked = "credo.diagnostics.convergence(posterior, x) judges them by their predictions"
        return (f"chains, by the log likelihood of the data: {verdict} ({asked})",)

    def to_arviz(self) -> Any:
        """All draws and statistics as ArviZ holds them: weights by name (C, T, *shape), statistics (C, T).

        Needs the extra `mcmc`. For networks look at the functions rather than at single weights, which have
        symmetries: `credo.diagnostics.convergence(posterior, x)`.
        """
        arviz = optional("arviz", "mcmc")
        weights = {name: self.by_chain(t).cpu().numpy() for name, t in self.variables.params.items()}
        statistics = {name: t.T.cpu().numpy() for name, t in self.statistics.items()}
        if "diverging" in statistics:
            statistics["diverging"] = statistics["diverging"] > 0
        groups = {"posterior": weights, **({"sample_stats": statistics} if statistics else {})}
        # ArviZ takes groups by name up to its version 0, and as one mapping from version 1 on
        return arviz.from_dict(**groups) if arviz.__version__.startswith("0.") else arviz.from_dict(groups)

    @property
    def default_draws(self) -> int:
        """All of them."""
        return self.variables.members

    def draw(self, count: int | None = None, seed: int = 0) -> NetworkFunctions:
        """All draws; with a count, that many, evenly spread over the chains and along them.

        The seed is of no use here: draws are what they are.
        """
        total = self.variables.members
        if count is None:
            return NetworkFunctions(self.model, self.variables, Draws.uniform(self.variables))
        count = whole_number("count", count)
        order = torch.arange(total).view(self.length, self.chains).T.reshape(-1)  # chain by chain
        chosen = order[(torch.arange(count, dtype=torch.float64) + 0.5).mul(total / count).long() % total]
        picked = self.variables.take(chosen)
        return NetworkFunctions(self.model, picked, Draws.uniform(picked))

    def at_mean(self) -> Draws:
        """The network at the average of all draws."""
        mean = averaged(self.variables, Draws.uniform(self.variables))
        return Draws(self.model, mean, Draws.uniform(mean), record=self.record)

    def members(self, count: int | None = None) -> Variables:
        return dealt(self.variables, count)

    def check(self) -> None:
        super().check()
        total = self.variables.members
        if self.chain.shape != (total,) or self.chain.is_floating_point() or int(self.chain[-1]) not in range(total):
            raise ValueError(f"chain must hold the number of the chain of each of the {total} draws")
        if total % self.chains or not torch.equal(self.chain, Chains.numbered(self.variables, self.chains)):
            raise ValueError(f"chain does not give {self.chains} chains of one length to {total} draws")
        for name, values in self.statistics.items():
            if values.shape != (self.length, self.chains) or not values.is_floating_point():
                raise ValueError(
                    f"the statistic {name!r} has shape {tuple(values.shape)}, and there are {self.length} draws of "
                    f"{self.chains} chains"
                )
