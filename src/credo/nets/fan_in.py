"""How many inputs feed one output of a weight."""

from __future__ import annotations

from torch import nn

_NOT_SUMMED = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm)
"""Layers whose weight picks or rescales, and sums over nothing."""
_WEIGHTS = ("weight", "in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
"""How the names of weights begin, in the layers of torch that multiply by them."""


def fan_in(module: nn.Module, name: str) -> int:
    """Inputs that feed one output of a weight; 1 for biases, norms and parameters of an unknown kind.

    Args:
        module: the network.
        name: of one of its parameters.
    """
    owner_name, _, leaf = name.rpartition(".")
    owner = module.get_submodule(owner_name)
    shape = module.get_parameter(name).shape
    if len(shape) < 2 or isinstance(owner, _NOT_SUMMED) or not leaf.startswith(_WEIGHTS):
        return 1
    if isinstance(owner, nn.modules.conv._ConvTransposeNd):
        return int(shape[0] * shape[2:].numel()) // owner.groups
    return int(shape[1:].numel())
