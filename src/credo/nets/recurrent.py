"""Recurrent layers with dropout between them, one layer at a time, so that what is dropped can be given from outside.

torch draws the dropout of `nn.LSTM(num_layers=2, dropout=0.1)` inside one kernel. The same numbers come out of one
call for each layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

RECURRENT = {torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu}
"""Functions that compute all layers of a recurrent network."""
_REST = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")


@dataclass(frozen=True)
class RecurrentCall:
    """A call of one of `RECURRENT` that has dropout between its layers.

    x is (B, T, D) or (T, B, D), or the rows of a packed sequence beside the sizes of its batches.
    """

    func: Any
    x: Tensor
    sizes: Tensor | None  # of the batches of a packed sequence
    state: tuple[Tensor, ...]  # first hidden states (layers * directions, B, H), and cells of an LSTM
    weights: Sequence[Tensor]  # of all layers
    has_biases: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool = False

    def __call__(self, drop: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        """The outputs of the last layer, and the last states of all, with `drop` between each two layers."""
        x, last, directions = self.x, [], 2 if self.bidirectional else 1
        size = len(self.weights) // self.layers
        for layer in range(self.layers):
            of_layer = slice(layer * directions, (layer + 1) * directions)
            weights = self.weights[layer * size : (layer + 1) * size]
            x, *states = self._layer(drop(x) if layer else x, tuple(s[of_layer] for s in self.state), weights)
            last.append(states)
        return (x, *(torch.cat(each) for each in zip(*last, strict=True)))

    def _layer(self, x: Tensor, state: tuple[Tensor, ...], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
        first: Any = state if self.func is torch.lstm else state[0]
        rest: tuple[Any, ...] = (self.has_biases, 1, 0.0, self.train, self.bidirectional)
        if self.sizes is None:
            return tuple(self.func(x, first, weights, *rest, self.batch_first))
        return tuple(self.func(x, self.sizes, first, weights, *rest))


def recurrent_call(func: Any, args: Sequence[Any]) -> RecurrentCall | None:
    """The call, if it has several layers with dropout between them."""
    padded = isinstance(args[3], bool)
    x, sizes, state, weights, *rest = (args[0], None, *args[1:]) if padded else args
    given = dict(zip(_REST, rest, strict=False))
    if given["num_layers"] < 2 or given["dropout"] == 0.0:
        return None
    states = tuple(state) if isinstance(state, tuple | list) else (state,)
    layers = given.pop("num_layers")
    return RecurrentCall(func, x, sizes, states, weights, layers=layers, **given)
