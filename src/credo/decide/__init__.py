"""What to do with a posterior: decisions and economies."""

from credo.decide.acquisition import (
    Acquisition,
    acquire,
    acquisition_scores,
    batch_bald,
    batch_information,
    information,
)
from credo.decide.active import ActiveLearner, Questions, Restart, simulate
from credo.decide.compression import Compression, LayerCompression, compression, log_alpha, prune_noise
from credo.decide.pruning import PruningCurve, pruning_curve, read_sparse, write_sparse
from credo.decide.session import Round

__all__ = [
    "Acquisition",
    "ActiveLearner",
    "Compression",
    "LayerCompression",
    "PruningCurve",
    "Questions",
    "Restart",
    "Round",
    "acquire",
    "acquisition_scores",
    "batch_bald",
    "batch_information",
    "compression",
    "information",
    "log_alpha",
    "prune_noise",
    "pruning_curve",
    "read_sparse",
    "simulate",
    "write_sparse",
]
