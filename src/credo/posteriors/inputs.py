"""Whether a network can take the inputs that people give."""

from __future__ import annotations

from torch import Tensor

from credo.core.trees import Variables
from credo.model import Model


def checked_outputs(model: Model, variables: Variables, x: Tensor) -> int:
    """E, the number of outputs per example, or a sentence that says why the network cannot take x (B, ...)."""
    try:
        return model.outputs(variables, x)
    except (RuntimeError, TypeError, IndexError, AttributeError, NotImplementedError) as error:
        sizes = ", ".join(["B", *map(str, x.shape[1:])])
        advice = "" if x.is_floating_point() else "; if x holds numbers to compute with, give them as floats"
        if x.ndim == 1:
            advice += "; one feature per example is a column, x[:, None]"
        raise ValueError(
            f"the network cannot be called on inputs of shape ({sizes}), {x.dtype}: {error}{advice}"
        ) from error
