"""What people give for inputs and targets, as tensors; and whether a network can take them."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from torch import Tensor

from credo.core.trees import Variables
from credo.model import Model, tensor


def numeric(values: Any, name: str) -> Tensor:
    """A tensor, array, data frame or list as a tensor, with a sentence where that fails."""
    if isinstance(values, list | tuple) and values and all(isinstance(item, Tensor) for item in values):
        values = torch.stack(list(values))
    if isinstance(values, Tensor):
        # what was made in inference mode cannot take part in a gradient
        return values.detach().clone() if values.is_inference() else values.detach()
    return tensor(_plain(values, name), name)


def _plain(values: Any, name: str) -> Any:
    """An array of its own that torch can take over: writable, contiguous, in the machine's byte order."""
    if isinstance(values, numpy.ma.MaskedArray) and bool(numpy.ma.getmaskarray(values).any()):
        raise ValueError(f"{name} has masked values: remove or fill them")
    try:
        array = numpy.array(values, order="C")
        if array.dtype == object:
            array = array.astype(numpy.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} cannot be read as numbers ({error}): give a tensor or a numeric array") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


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
