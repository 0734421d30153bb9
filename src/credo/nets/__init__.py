"""Networks: torch modules as pure functions, and a few that credo can build itself."""

from credo.nets.autoencoder import Autoencoder
from credo.nets.columns import ColumnScales, Pieces, TableColumns
from credo.nets.convolutional import CNN, LeNet5
from credo.nets.dropout import Drops
from credo.nets.mlp import MLP
from credo.nets.network import Net, Network
from credo.nets.norms import FilterResponseNorm
from credo.nets.plan import Plan
from credo.nets.residual import ResNet18, ResNet20, WideResNet

__all__ = [
    "CNN",
    "MLP",
    "Autoencoder",
    "ColumnScales",
    "Drops",
    "FilterResponseNorm",
    "LeNet5",
    "Net",
    "Network",
    "Pieces",
    "Plan",
    "ResNet18",
    "ResNet20",
    "TableColumns",
    "WideResNet",
]
