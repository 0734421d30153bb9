"""What to do with a posterior: decisions and economies."""

from credo.decide.compression import Compression, LayerCompression, compression, log_alpha, prune_noise
from credo.decide.pruning import PruningCurve, pruning_curve, read_sparse, write_sparse

__all__ = [
    "Compression",
    "LayerCompression",
    "PruningCurve",
    "compression",
    "log_alpha",
    "prune_noise",
    "pruning_curve",
    "read_sparse",
    "write_sparse",
]
