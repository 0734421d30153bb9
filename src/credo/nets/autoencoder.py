"""An encoder and a decoder as one network, for a variational autoencoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from credo.core.checks import whole_number
from credo.nets.mlp import MLP

SMALLEST = 1e-6
"""Scale of q(z | x) below which it does not go."""


class Autoencoder(nn.Module):
    """The networks of q(z | x) and p(x | z).

    Called on x (B, ...) alone it gives the decoder's outputs at the means of q(z | x), (B, E). With noise (B, S, L) it
    gives what a bound needs, side by side: outputs at S draws of z, (B, S * E), then means and scales of q, (B, 2 L).
    Called on z (B, L) it gives the decoder's outputs there, (B, E).

    Args:
        shape: of one x, such as (28, 28).
        latent: L, the number of latent dimensions.
        per_value: outputs of the decoder for each number in x: 2 for a likelihood with a scale for each, otherwise 1.
        hidden: widths of the hidden layers of the encoder; the decoder has them the other way round.
        activation: as in `MLP`.
        encoder: a module from x (B, ...) to (B, 2 L), means and unbounded scales; None for a multilayer perceptron.
        decoder: a module from z (B, L) to (B, ...); None for a multilayer perceptron.

    Attributes:
        loc: the encoder sees (x - loc) / scale; these two are buffers, 0 and 1 unless they are filled.
        scale: what x is divided by.

    Examples:
        >>> net = Autoencoder((8, 8), latent=2, hidden=(16,))
        >>> net(torch.zeros(5, 8, 8)).shape, net(torch.zeros(5, 8, 8), torch.zeros(5, 3, 2)).shape
        (torch.Size([5, 64]), torch.Size([5, 196]))
    """

    def __init__(
        self,
        shape: Sequence[int],
        latent: int = 20,
        per_value: int = 1,
        hidden: Sequence[int] | int = (500, 500),
        activation: str = "relu",
        *,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.shape = tuple(whole_number("shape", size) for size in shape)
        self.latent = whole_number("latent", latent)
        numbers = math.prod(self.shape)
        widths = [int(size) for size in hidden] if isinstance(hidden, Sequence) else [int(hidden)]
        sizes = (numbers, 2 * self.latent), (self.latent, per_value * numbers)
        self.encoder = _glorot(MLP(*sizes[0], widths, activation)) if encoder is None else encoder
        self.decoder = _glorot(MLP(*sizes[1], widths[::-1], activation)) if decoder is None else decoder
        self.loc: Tensor
        self.scale: Tensor
        self.register_buffer("loc", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))
        self.config: dict[str, Any] | None = None  # of a network that can be built again from its numbers
        if encoder is None and decoder is None:
            self.config = {
                "shape": list(self.shape),
                "latent": self.latent,
                "per_value": per_value,
                "hidden": widths,
                "activation": activation,
            }

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and scale of q(z | x), (B, L) each."""
        mean, raw = self.encoder((x - self.loc) / self.scale).flatten(1).chunk(2, dim=1)
        return mean, F.softplus(raw) + SMALLEST

    def decode(self, z: Tensor) -> Tensor:
        """Outputs (B, E) for latents (B, L)."""
        outputs: Tensor = self.decoder(z).flatten(1)
        return outputs

    def forward(self, x: Tensor | None = None, noise: Tensor | None = None, z: Tensor | None = None) -> Tensor:
        if z is not None:
            return self.decode(z)
        if x is None:
            raise ValueError("an autoencoder is called on x, or on z alone")
        mean, scale = self.encode(x)
        if noise is None:
            return self.decode(mean)
        z = mean.unsqueeze(1) + scale.unsqueeze(1) * noise  # (B, S, L)
        outputs = self.decode(z.flatten(0, 1)).reshape(len(x), -1)
        return torch.cat([outputs, mean, scale], dim=1)


def _glorot(net: MLP) -> MLP:
    """Uniform weights of Glorot and Bengio, and no biases, as is usual for these networks."""
    for layer in net.layers:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return net
