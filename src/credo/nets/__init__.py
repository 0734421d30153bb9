"""Networks: torch modules as pure functions, and a few that credo can build itself."""

from credo.nets.mlp import MLP
from credo.nets.network import Net, Network
from credo.nets.plan import Plan

__all__ = ["MLP", "Net", "Network", "Plan"]
