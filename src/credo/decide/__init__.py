"""What to do with a posterior: decisions and economies."""

from credo.decide.pruning import PruningCurve, pruning_curve, read_sparse, write_sparse

__all__ = ["PruningCurve", "pruning_curve", "read_sparse", "write_sparse"]
