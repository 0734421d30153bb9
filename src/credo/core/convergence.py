"""Whether chains have seen enough: measures by ArviZ, and a verdict in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo.core.optional import optional

R_HAT = 1.01
"""Chains agree where R-hat is below (Vehtari et al. 2021)."""
APART = 1.05
"""From here on chains are so far apart that effective draws say nothing; below, too few draws alone can cause it."""
DRAWS_PER_CHAIN, COUNTED_CHAINS = 100, 4
"""Effective draws that each chain should bring, in the bulk and in the tails, and how many chains are asked for them:
400 of four chains are enough (Vehtari et al. 2021), and they are enough of four hundred chains too."""
TAILS = (0.05, 0.95)
"""The quantiles by which tails are judged. ArviZ's default, which its version 1 no longer supplies for arrays."""
FEW = 4
"""Draws of a chain below which it cannot be judged."""
BFMI = 0.3
"""Below, the energy of a chain changes too little from draw to draw for the range that it has (Betancourt 2016)."""
RARE = 1e-3
"""Share of diverging trajectories up to which they are accidents, as the kinks of ReLU units cause them."""


@dataclass(frozen=True)
class Convergence:
    """How well chains agree, judged by the drawn functions at chosen inputs.

    Weights of a network have symmetries: two chains may hold the same functions with their hidden units in another
    order, and the weights would never agree. The functions do. What is judged at each input are the D values of
    E[y | x, w] and, where the noise is learned, the D of Std[y | x, w] after them: V values.

    Attributes:
        r_hat: rank-normalized R-hat, (B, V); NaN where all draws have the same value, so that nothing can disagree, and
            everywhere for a single chain.
        ess_bulk: effective number of draws in the bulk, (B, V).
        ess_tail: that in the tails, (B, V).
        mcse: standard error of the mean over draws by Monte Carlo, (B, V).
        chains: C.
        length: draws of each chain.
        divergences: trajectories that the integrator could not follow; 0 for samplers that have none.
        bfmi: fraction of missing information by the energy of each chain, (C,); empty for samplers without energy.
        still: numbers of chains that have not moved, from 0.
        broken: numbers of chains whose functions are not finite.

    Reference: A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Bürkner, "Rank-normalization, folding, and
        localization: an improved R-hat", 2021, https://arxiv.org/abs/1903.08008; M. Betancourt, "Diagnosing suboptimal
        cotangent disintegrations in Hamiltonian Monte Carlo", 2016, https://arxiv.org/abs/1604.00695
    """

    r_hat: Tensor
    ess_bulk: Tensor
    ess_tail: Tensor
    mcse: Tensor
    chains: int
    length: int
    divergences: int = 0
    bfmi: tuple[float, ...] = ()
    still: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Convergence(chains={self.chains}, length={self.length}, worst_r_hat={self.worst_r_hat:.3f}, "
            f"effective_draws={self.effective_draws:.0f}, divergences={self.divergences})"
        )

    def __str__(self) -> str:
        """The verdict, and below it the numbers at the worst input."""
        lines = [self.verdict, f"  chains           {self.chains}, {self.length} draws each"]
        if not math.isnan(self.worst_r_hat):
            lines.append(f"  worst R-hat      {self.worst_r_hat:.3f}, good below {R_HAT}")
        if not math.isnan(self.effective_draws):
            lines.append(f"  effective draws  {self.effective_draws:.0f}, enough from {self.wanted_draws} on")
        if self.divergences:
            lines.append(f"  divergences      {self.divergences} of {self.chains * self.length} trajectories")
        return "\n".join(lines)

    @property
    def worst_r_hat(self) -> float:
        """The largest of all inputs; NaN where convergence cannot be judged."""
        known = self.r_hat[~self.r_hat.isnan()]
        return float(known.max()) if len(known) else math.nan

    @property
    def effective_draws(self) -> float:
        """The smaller of bulk and tail, at the worst input; NaN where convergence cannot be judged."""
        both = torch.stack([self.ess_bulk, self.ess_tail])
        known = both[~both.isnan()]
        return float(known.min()) if len(known) else math.nan

    @property
    def wanted_draws(self) -> int:
        """Effective draws that would be enough."""
        return DRAWS_PER_CHAIN * min(self.chains, COUNTED_CHAINS)

    @property
    def more_draws(self) -> int:
        """Draws that each chain should still add until there are enough, to two digits; 0 if there are."""
        if not self.effective_draws < self.wanted_draws:
            return 0
        missing = math.ceil(self.length * (self.wanted_draws / max(self.effective_draws, 1.0) - 1.0))
        unit = 10 ** max(0, len(str(missing)) - 2)
        return math.ceil(missing / unit) * unit

    @property
    def converged(self) -> bool:
        """Whether several chains agree and have enough draws, with no sign of trouble."""
        return self.unknown is None and self.chains > 1 and not self._advice()

    @property
    def unknown(self) -> str | None:
        """Why convergence cannot be judged; None if something can."""
        if self.length < FEW:
            return f"each chain has {self.length} draw{'s' * (self.length > 1)}, and at least {FEW} are needed"
        if self.broken:
            return f"the functions of {_named(self.broken)} are not finite: the step size is too large for this density"
        if len(self.still) == self.chains:
            which = "no chain has" if self.chains > 1 else "the chain has not"
            return f"{which} moved: every proposal was rejected, or the step size is far too small"
        return None

    @property
    def verdict(self) -> str:
        """A sentence for a person: converged, not yet, how many more draws."""
        if self.unknown is not None:
            return f"convergence cannot be judged: {self.unknown}"
        agreement = f"R-hat is at most {self.worst_r_hat:.3f}" if self.chains > 1 else "R-hat needs several chains"
        facts = f"{agreement} and there are at least {self.effective_draws:.0f} effective draws"
        alone = ["run several chains, since one cannot know what it has missed"] if self.chains == 1 else []
        advice = "; ".join([*alone, *self._advice()])
        return f"converged: {facts}" if self.converged else f"not yet: {facts}; {advice}"

    def _advice(self) -> list[str]:
        advice = []
        if self.still:
            advice.append(f"{_named(self.still)} did not move: start again with another seed or a smaller step size")
        if self.worst_r_hat >= APART:
            advice.append(
                "the chains disagree: a longer warm-up helps if they are on their way to one place, and nothing does "
                "if they sit in separate modes"
            )
        elif self.more_draws:
            advice.append(f"about {self.more_draws} more draws per chain are needed")
        elif self.worst_r_hat >= R_HAT:
            advice.append(f"R-hat should be below {R_HAT}: twice as many draws will tell whether the chains agree")
        if self.divergences > RARE * self.chains * self.length:
            advice.append(
                f"{self.divergences} trajectories diverged: raise target_acceptance or warmup, or take a narrower prior"
            )
        if any(value < BFMI for value in self.bfmi):
            advice.append(
                f"the energy of a chain mixes slowly (BFMI {min(self.bfmi):.2f}, below {BFMI}): the density has heavy "
                "tails, which are hardly explored"
            )
        return advice


def _named(chains: Sequence[int]) -> str:
    numbers = [str(chain + 1) for chain in chains]
    return f"chain {numbers[0]}" if len(numbers) == 1 else f"chains {', '.join(numbers[:-1])} and {numbers[-1]}"


def measures(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """R-hat, both effective numbers of draws and the standard error, (4, B, V), of values (C, T, B, V), by ArviZ.

    NaN where all draws have the same value, where one is not finite, and everywhere if there are too few; R-hat is NaN
    for a single chain.
    """
    arviz, found = optional("arviz", "mcmc"), np.full((4, *values.shape[2:]), np.nan)
    if values.shape[1] < FEW:
        return found
    for place in np.ndindex(*values.shape[2:]):
        one = np.ascontiguousarray(values[:, :, *place])
        if np.isfinite(one).all() and (one != one[0, 0]).any():
            found[:, *place] = _of_one(arviz, one)
    return found


def _of_one(arviz: Any, values: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """The four measures of one number per draw, (C, T)."""
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that stand still have no variance to divide by
        return (
            float(arviz.rhat(values, method="rank")) if len(values) > 1 else math.nan,  # for one chain ArviZ would log
            float(arviz.ess(values, method="bulk")),
            float(arviz.ess(values, method="tail", prob=TAILS)),
            float(arviz.mcse(values, method="mean")),
        )


def still(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which chains never change any of the values (C, T, B, V), (C,)."""
    same: NDArray[np.bool_] = np.all(values == values[:, :1], axis=(1, 2, 3))
    return same


def broken(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which chains have a value that is not finite, (C,)."""
    wild: NDArray[np.bool_] = np.any(~np.isfinite(values), axis=(1, 2, 3))
    return wild


def verdict_on(values: NDArray[np.float64]) -> str:
    """The verdict on values (C, T, B, V) of every draw alone."""
    unmoved, wild = (tuple(map(int, np.flatnonzero(which))) for which in (still(values), broken(values)))
    r_hat, bulk, tail, mcse = torch.from_numpy(measures(values))
    chains, length = values.shape[:2]
    return Convergence(r_hat, bulk, tail, mcse, chains, length, still=unmoved, broken=wild).verdict
