"""The networks that a saved folder may name."""

from __future__ import annotations

from torch import nn

from credo.nets.autoencoder import Autoencoder
from credo.nets.convolutional import CNN, LeNet5
from credo.nets.mlp import MLP
from credo.nets.residual import ResNet18, ResNet20, WideResNet

BUILDERS: dict[str, type[nn.Module]] = {
    kind.__name__: kind for kind in (Autoencoder, CNN, LeNet5, MLP, ResNet18, ResNet20, WideResNet)
}


def builder_of(module: nn.Module) -> str | None:
    """The name under which a network is built again from its `config`; None for one that cannot be."""
    known = type(module) in BUILDERS.values() and getattr(module, "config", None) is not None
    return type(module).__name__ if known else None
