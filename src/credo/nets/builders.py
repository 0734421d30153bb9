"""The networks that a saved folder may name."""

from __future__ import annotations

from torch import nn

from credo.nets.autoencoder import Autoencoder
from credo.nets.mlp import MLP

BUILDERS: dict[str, type[nn.Module]] = {"Autoencoder": Autoencoder, "MLP": MLP}


def builder_of(module: nn.Module) -> str | None:
    """The name under which a network is built again from its `config`; None for one that cannot be."""
    known = type(module) in BUILDERS.values() and getattr(module, "config", None) is not None
    return type(module).__name__ if known else None
