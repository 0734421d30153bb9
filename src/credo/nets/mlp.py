"""Networks that credo can build, and rebuild from their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
}


class MLP(nn.Module):
    """A multilayer perceptron: inputs of any shape are flattened.

    Args:
        inputs: number of features.
        outputs: number of outputs; twice the number of targets for a heteroscedastic likelihood, K for K classes.
        hidden: width of each hidden layer; empty for a linear model.
        activation: relu, tanh, sigmoid, gelu, silu or softplus.
        dropout: rate after each hidden layer; 0 for none.

    Example:
        >>> import torch
        >>> MLP(13, 1)(torch.zeros(5, 13)).shape
        torch.Size([5, 1])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Sequence[int] = (50, 50),
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        self.config: dict[str, Any] = {
            "inputs": inputs,
            "outputs": outputs,
            "hidden": list(hidden),
            "activation": activation,
            "dropout": dropout,
        }
        layers: list[nn.Module] = [nn.Flatten()]
        width = inputs
        for size in hidden:
            layers += [nn.Linear(width, size), ACTIVATIONS[activation]()]
            if dropout > 0.0:
                layers.append(nn.Dropout(dropout))
            width = size
        layers.append(nn.Linear(width, outputs))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:  # (B, ...) -> (B, outputs)
        result: Tensor = self.layers(x)
        return result


BUILDERS: dict[str, type[nn.Module]] = {"MLP": MLP}
"""The networks that a saved folder may name."""
