"""Whether chains have seen enough: a verdict on the functions that they draw."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from credo.core.convergence import FEW, Convergence, broken, measures, still
from credo.core.inputs import Inputs, rows_at_once
from credo.core.optional import optional
from credo.likelihoods import NumericLikelihood
from credo.posteriors import Chains

__all__ = ["Convergence", "convergence"]

ENTRIES = 2**22
"""Function values that are held in memory at once, whatever the number of draws and inputs."""


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
    parts, unmoved, wild = [], np.ones(posterior.chains, bool), np.zeros(posterior.chains, bool)
    for values in _blocks(posterior, inputs):
        unmoved &= still(values)
        wild |= broken(values)
        parts.append(measures(values))
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
        still=tuple(map(int, np.flatnonzero(unmoved))),
        broken=tuple(map(int, np.flatnonzero(wild))),
    )


def _blocks(posterior: Chains, inputs: Inputs) -> Iterator[NDArray[np.float64]]:
    """What is judged, as ArviZ wants it, (C, T, rows, V), for a few inputs at a time."""
    functions, likelihood = posterior.draw(), posterior.model.likelihood
    learned = functions.likelihood_params
    outputs = math.prod(posterior.model.output_shape(functions.variables, inputs))
    rows = rows_at_once(inputs, ENTRIES // (len(functions) * outputs))
    noisy = False
    for start in range(0, len(inputs), rows):
        draws = functions(inputs[start : start + rows])
        judged = likelihood.mean(draws, learned).double().flatten(2)
        if isinstance(likelihood, NumericLikelihood):
            noise = likelihood.variance(draws, learned).double().sqrt().flatten(2)
            noisy = noisy or (start == 0 and bool((noise != noise[:1]).any()))  # the same V for every block
            judged = torch.cat([judged, noise], dim=-1) if noisy else judged
        yield posterior.by_chain(judged).cpu().numpy()
