"""Which parts of an input raise the doubt? The gradient of a measure of doubt by the input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from credo.core.inputs import rows_at_once
from credo.posteriors import NetworkFunctions, Posterior
from credo.predictive import predictive
from credo.uncertainty.scores import Doubt, score

ENTRIES = 2**22
"""Numbers of the inputs, times draws, that are differentiated at a time."""


def doubt_gradient(
    posterior: Posterior,
    x: Any,
    doubt: Doubt | str = Doubt.MUTUAL_INFORMATION,
    draws: int | None = None,
    seed: int = 0,
) -> Tensor:
    """d doubt / d x of each number of each input, in the shape of x: where a small change would raise the doubt.

    By default of the mutual information, which is what the drawn functions disagree about: the epistemic part. A
    gradient speaks of small changes only; that a pixel matters as a whole is shown by changing it.

    Args:
        posterior: whose functions are drawn; what calibrates it does not enter.
        x: inputs (B, ...), one tensor of real numbers.
        doubt: a measure by its name, as in `score`.
        draws: number of drawn functions; None for the posterior's own choice.
        seed: of the draws.

    Examples:
        >>> import torch, credo
        >>> x, y = torch.linspace(-1, 1, 40)[:, None], (torch.arange(40) > 19).long()
        >>> posterior = credo.fit(credo.nets.MLP(1, 2), (x, y), credo.DeepEnsemble(members=3, epochs=5))
        >>> doubt_gradient(posterior, x).shape
        torch.Size([40, 1])

    Reference: K. Simonyan, A. Vedaldi, A. Zisserman, "Deep inside convolutional networks", 2014,
        https://arxiv.org/abs/1312.6034, of class scores in the place of doubt.
    """
    functions = posterior.draw(draws, seed)
    if not isinstance(functions, NetworkFunctions):
        raise TypeError(
            f"gradients pass through networks, and {type(functions).__name__} are functions of another kind"
        )
    values = posterior.inputs(x)
    if not isinstance(values, Tensor) or not values.is_floating_point():
        raise ValueError("the gradient is by one tensor of real numbers, and x holds others, or several")
    size = rows_at_once(values, max(1, ENTRIES // (len(functions) * max(1, values[0].numel()))))
    found = [_gradient(posterior, functions, part, doubt) for part in torch.split(values, size)]
    return torch.cat(found)


def _gradient(posterior: Posterior, functions: NetworkFunctions, x: Tensor, doubt: Doubt | str) -> Tensor:
    leaf = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        outputs = functions.differentiable(leaf)
        likelihood, params = posterior.model.likelihood, functions.likelihood_params
        # of outputs with positions the doubts of all positions add up
        total = score(predictive(likelihood, outputs, params, functions.log_weights).rows(), doubt).sum()
        if not total.requires_grad:
            return torch.zeros_like(leaf)  # a single function disagrees with nobody, wherever it is
        (gradient,) = torch.autograd.grad(total, leaf, allow_unused=True)
    return torch.zeros_like(leaf) if gradient is None else gradient
