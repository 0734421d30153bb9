"""Networks: torch modules as pure functions, and a few that credo can build itself."""

from credo.nets.autoencoder import Autoencoder
from credo.nets.dropout import Drops
from credo.nets.mlp import MLP
from credo.nets.network import Net, Network
from credo.nets.plan import Plan

__all__ = ["MLP", "Autoencoder", "Drops", "Net", "Network", "Plan"]
