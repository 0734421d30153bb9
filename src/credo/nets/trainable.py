"""Why a module cannot be trained as it is, in sentences where torch's own say little."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from credo.core.trees import Params


def check_gradient(outputs: Tensor, leaves: Params) -> None:
    """Refuse a module that overwrites in place what its gradient needs, as torch does in any training."""
    try:
        torch.autograd.grad(outputs.sum(), list(leaves.values()), allow_unused=True)
    except RuntimeError as error:
        if "inplace operation" in str(error):
            raise ValueError(
                "the network changes a tensor in place (such as h += 1 after a relu) that its gradient needs, and "
                f"torch refuses to train it: {str(error).split('. Hint')[0]}"
            ) from None


@contextmanager
def explained() -> Iterator[None]:
    """Say what batch norm means by a value per channel."""
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise ValueError(
            "batch norm goes by the batch in training, and one of the batches has a single example: give another "
            "batch_size, or drop_last=True to the DataLoader"
        ) from None
