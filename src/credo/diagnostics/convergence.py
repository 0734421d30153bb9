"""Whether chains have seen enough: a verdict on the functions that they draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from credo.core.optional import optional
from credo.posteriors import Chains

R_HAT = 1.01
"""Chains agree where R-hat is below (Vehtari et al. 2021)."""
DRAWS_PER_CHAIN = 100
"""Effective draws that each chain should bring, in the bulk and in the tails (Vehtari et al. 2021)."""
FEW = 4
"""Draws of a chain below which nothing can be told."""
DIVERGING = "diverging"


@dataclass(frozen=True)
class Convergence:
    """How well chains agree, judged by the values of the drawn functions at chosen inputs.

    Weights of a network have symmetries: two chains may hold the same functions with their hidden units in another
    order, and the weights would never agree. The functions do.

    Attributes:
        r_hat: rank-normalised R-hat of E[y | x, w] at every input, (B, D).
        ess_bulk: effective number of draws in the bulk, (B, D).
        ess_tail: that in the tails, (B, D).
        mcse: standard error of the predictive mean by Monte Carlo, (B, D).
        chains: C.
        length: draws of each chain.
        divergences: trajectories that the integrator could not follow; 0 for samplers that have none.

    Reference: A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Bürkner, "Rank-normalization, folding, and
        localization: an improved R-hat", 2021, https://arxiv.org/abs/1903.08008
    """

    r_hat: Tensor
    ess_bulk: Tensor
    ess_tail: Tensor
    mcse: Tensor
    chains: int
    length: int
    divergences: int = 0

    @property
    def worst_r_hat(self) -> float:
        return float(self.r_hat.max())

    @property
    def effective_draws(self) -> float:
        """The smaller of bulk and tail, at the worst input."""
        return min(float(self.ess_bulk.min()), float(self.ess_tail.min()))

    @property
    def wanted_draws(self) -> int:
        """Effective draws that would be enough."""
        return DRAWS_PER_CHAIN * self.chains

    @property
    def more_draws(self) -> int:
        """Draws that each chain should still add until there are enough; 0 if there are."""
        if not self.effective_draws < self.wanted_draws:
            return 0
        return math.ceil(self.length * (self.wanted_draws / max(self.effective_draws, 1.0) - 1.0))

    @property
    def converged(self) -> bool:
        """Whether several chains agree and have enough draws, and no trajectory diverged."""
        return self.chains > 1 and self.worst_r_hat < R_HAT and self.more_draws == 0 and self.divergences == 0

    @property
    def verdict(self) -> str:
        """A sentence for a person: converged, not yet, how many more draws."""
        facts = (
            f"R-hat is at most {self.worst_r_hat:.3f} and there are at least {self.effective_draws:.0f} effective draws"
        )
        if math.isnan(self.worst_r_hat):
            return "nothing can be told: a chain does not move, or holds too few draws"
        if self.converged:
            return f"converged: {facts} at every input"
        return f"not yet: {facts}; " + "; ".join(self._advice())

    def _advice(self) -> list[str]:
        advice = []
        if self.chains == 1:
            advice.append("run several chains, since one cannot know what it has missed")
        if self.worst_r_hat >= R_HAT:
            advice.append("chains still disagree: a longer warm-up helps if they are on their way to one place")
        if self.more_draws:
            advice.append(f"about {self.more_draws} more draws per chain are needed")
        if self.divergences:
            advice.append(
                f"{self.divergences} trajectories diverged: raise target_acceptance, or weaken the prior's tails"
            )
        return advice


@torch.no_grad()
def convergence(posterior: Chains, x: Any) -> Convergence:
    """Judge chains by the functions that they draw, at inputs that matter to you.

    Args:
        posterior: of a sampler.
        x: inputs (B, ...) at which predictions are judged; some dozens, test inputs and ones further out, are enough.
    """
    if not isinstance(posterior, Chains):
        raise TypeError(
            f"convergence is a question about chains, and this is a {type(posterior).__name__}: fit with a "
            "sampler such as credo.NUTS; for a variational posterior there is credo.diagnostics.trust"
        )
    if posterior.length < FEW:
        raise ValueError(f"each chain has {posterior.length} draw(s): nothing can be told below {FEW}")
    arviz = optional("arviz", "mcmc")
    values = function_values(posterior, x)

    def each(measure: Any, **options: Any) -> Tensor:
        flat = values.reshape(*values.shape[:2], -1)
        found = [float(measure(flat[:, :, i], **options)) for i in range(flat.shape[2])]
        return torch.tensor(found, dtype=torch.float64).view(values.shape[2:])

    return Convergence(
        each(arviz.rhat, method="rank"),
        each(arviz.ess, method="bulk"),
        each(arviz.ess, method="tail"),
        each(arviz.mcse, method="mean"),
        posterior.chains,
        posterior.length,
        int(posterior.statistics[DIVERGING].sum()) if DIVERGING in posterior.statistics else 0,
    )


def function_values(posterior: Chains, x: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """E[y | x, w] of every draw as ArviZ wants it, (C, T, B, D)."""
    prediction = posterior.predict(x)
    means = prediction.likelihood.mean(prediction.draws, prediction.params)
    return posterior.by_chain(means).double().cpu().numpy()
