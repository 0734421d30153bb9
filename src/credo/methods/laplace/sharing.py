"""Weights that several positions share."""

from __future__ import annotations

from enum import StrEnum


class WeightSharing(StrEnum):
    """How Kronecker products treat positions that share the weights of a layer."""

    EXPAND = "expand"
    """Each position is taken for an example of its own."""
    REDUCE = "reduce"
    """Gradients are summed and inputs averaged over the positions of an example first."""
