"""Whether chains have seen enough: a verdict on the functions that they draw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo.core.optional import optional
from credo.likelihoods import NumericLikelihood
from credo.posteriors import Chains, Posterior

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
"""Draws of a chain below which nothing can be told."""
BFMI = 0.3
"""Below, the energy of a chain changes too little from draw to draw for the range that it has (Betancourt 2016)."""
RARE = 1e-3
"""Share of diverging trajectories up to which they are accidents, as the kinks of ReLU units cause them."""
ENTRIES = 2**22
"""Function values that are held in memory at once, whatever the number of draws and inputs."""
LOOKED_AT = 16
"""Training inputs at which `remark` judges."""


@dataclass(frozen=True)
class Convergence:
    """How well chains agree, judged by the drawn functions at chosen inputs.

    Weights of a network have symmetries: two chains may hold the same functions with their hidden units in another
    order, and the weights would never agree. The functions do. What is judged at each input are the D values of
    E[y | x, w] and, where the noise is learnt, the D of Std[y | x, w] after them: V values.

    Attributes:
        r_hat: rank-normalised R-hat, (B, V); NaN where all draws have the same value, so that nothing can disagree.
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

    @property
    def worst_r_hat(self) -> float:
        """The largest of all inputs; NaN where nothing can be told."""
        known = self.r_hat[~self.r_hat.isnan()]
        return float(known.max()) if len(known) else math.nan

    @property
    def effective_draws(self) -> float:
        """The smaller of bulk and tail, at the worst input; NaN where nothing can be told."""
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
        """Why nothing can be told; None if something can."""
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
            return f"nothing can be told: {self.unknown}"
        facts = (
            f"R-hat is at most {self.worst_r_hat:.3f} and there are at least {self.effective_draws:.0f} effective draws"
        )
        return f"converged: {facts} at every input" if self.converged else f"not yet: {facts}; {self._joined()}"

    def _joined(self) -> str:
        alone = ["run several chains, since one cannot know what it has missed"] if self.chains == 1 else []
        return "; ".join([*alone, *self._advice()])

    def _advice(self) -> list[str]:
        advice = []
        if self.still:
            advice.append(f"{_named(self.still)} did not move: start again with another seed or a smaller step size")
        if self.more_draws and self.worst_r_hat < APART:
            advice.append(f"about {self.more_draws} more draws per chain are needed")
        elif self.worst_r_hat >= R_HAT:
            advice.append(
                "the chains disagree: a longer warm-up helps if they are on their way to one place, and nothing does "
                "if they sit in separate modes"
            )
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


@torch.no_grad()
def convergence(posterior: Chains, x: Any) -> Convergence:
    """Judge chains by the functions that they draw, at inputs that matter to you. All measures are ArviZ's.

    Args:
        posterior: of a sampler.
        x: inputs (B, ...) at which predictions are judged; some dozens, test inputs and ones further out, are enough.

    Returns:
        The measures at every input, and a `verdict` in words.
    """
    if not isinstance(posterior, Chains):
        raise TypeError(
            f"convergence is a question about chains, and this is a {type(posterior).__name__}: fit with a "
            "sampler such as credo.NUTS; for a variational posterior there is credo.diagnostics.trust"
        )
    arviz, inputs = optional("arviz", "mcmc"), posterior.inputs(x)
    parts, moved, finite = [], np.zeros(posterior.chains, bool), np.ones(posterior.chains, bool)
    for values in _blocks(posterior, inputs):
        moved |= (values != values[:, :1]).any((1, 2, 3))
        finite &= np.isfinite(values).all((1, 2, 3))
        parts.append(_measures(arviz, values))
    r_hat, bulk, tail, mcse = torch.from_numpy(np.concatenate(parts, axis=1))  # (B, V) each
    statistics = {name: posterior.statistics[name].T.double().cpu().numpy() for name in posterior.statistics}
    energy, judged = statistics.get("energy"), posterior.length >= FEW
    return Convergence(
        r_hat,
        bulk,
        tail,
        mcse,
        posterior.chains,
        posterior.length,
        divergences=int(statistics["diverging"].sum()) if "diverging" in statistics else 0,
        bfmi=tuple(map(float, arviz.bfmi(energy))) if energy is not None and judged else (),
        still=tuple(map(int, np.flatnonzero(~moved))),
        broken=tuple(map(int, np.flatnonzero(~finite))),
    )


def _measures(arviz: Any, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """R-hat, both effective numbers of draws and the standard error, (4, B, V), of values (C, T, B, V)."""
    found = np.full((4, *values.shape[2:]), np.nan)
    if values.shape[1] < FEW:
        return found
    for place in np.ndindex(*values.shape[2:]):
        one = np.ascontiguousarray(values[:, :, *place])
        if np.isfinite(one).all() and (one != one[0, 0]).any():
            found[:, *place] = (
                float(arviz.rhat(one, method="rank")),
                float(arviz.ess(one, method="bulk")),
                float(arviz.ess(one, method="tail", prob=TAILS)),
                float(arviz.mcse(one, method="mean")),
            )
    return found


def _blocks(posterior: Chains, inputs: Tensor) -> Iterator[NDArray[np.float64]]:
    """What is judged, as ArviZ wants it, (C, T, rows, V), for a few inputs at a time."""
    functions, likelihood = posterior.draw(), posterior.model.likelihood
    own = functions.likelihood_params
    outputs = posterior.model.outputs(functions.variables, inputs)
    rows = max(1, ENTRIES // (len(functions) * outputs))
    noisy = False
    for start in range(0, len(inputs), rows):
        draws = functions(inputs[start : start + rows])
        judged = likelihood.mean(draws, own).double()
        if isinstance(likelihood, NumericLikelihood):
            noise = likelihood.variance(draws, own).double().sqrt()
            noisy = noisy or (start == 0 and bool((noise != noise[:1]).any()))  # the same V for every block
            judged = torch.cat([judged, noise], dim=-1) if noisy else judged
        yield posterior.by_chain(judged).cpu().numpy()


def remark(posterior: Posterior, x: Tensor) -> str | None:
    """The verdict on a sampler's run at a few of its training inputs, so that no run ends in silence about it.

    Args:
        posterior: of any method.
        x: training inputs, (N, ...).

    Returns:
        A sentence; None for a posterior that is not made of chains.
    """
    if not isinstance(posterior, Chains):
        return None
    places = torch.linspace(0, len(x) - 1, min(LOOKED_AT, len(x))).round().long()
    try:
        return f"at {len(places)} of the training inputs, {convergence(posterior, x[places.to(x.device)]).verdict}"
    except ImportError:
        return (
            "whether the chains have converged is not known: pip install 'credo[mcmc]', then ask "
            "credo.diagnostics.convergence(posterior, x).verdict"
        )
