"""Networks that credo can build, and rebuild from their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from credo.core.checks import check_rate, is_number, whole_number
from credo.nets.columns import ColumnScales, TableColumns

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
        hidden: width of each hidden layer, or of the only one; empty for a linear model.
        activation: relu, tanh, sigmoid, gelu, silu or softplus.
        dropout: rate after each hidden layer; 0 for none.
        columns: how the columns of a table enter: scaled without outliers, and in pieces (`TableColumns`); None as they
            are.

    Examples:
        >>> import torch
        >>> MLP(13, 1)(torch.zeros(5, 13)).shape
        torch.Size([5, 1])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Sequence[int] | int = (50, 50),
        activation: str = "relu",
        dropout: float = 0.0,
        columns: ColumnScales | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        check_rate("dropout", dropout)
        inputs, outputs = whole_number("inputs", inputs), whole_number("outputs", outputs)
        widths = [whole_number("hidden", size) for size in ([hidden] if is_number(hidden) else hidden)]  # type: ignore[union-attr]
        self.config: dict[str, Any] = {
            "inputs": inputs,
            "outputs": outputs,
            "hidden": widths,
            "activation": activation,
            "dropout": dropout,
        }
        layers: list[nn.Module] = [nn.Flatten()]
        width = inputs
        if columns is not None:
            first = TableColumns(columns, inputs)
            self.config["columns"], width = first.scales.config, first.features
            layers = [first]
        for size in widths:
            layers += [nn.Linear(width, size), ACTIVATIONS[activation]()]
            if dropout > 0.0:
                layers.append(nn.Dropout(dropout))
            width = size
        layers.append(nn.Linear(width, outputs))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:  # (B, ...) -> (B, outputs)
        result: Tensor = self.layers(x)
        return result
