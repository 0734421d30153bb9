"""Speed in a room of its own: every kernel has the values and gradients of plain autograd, or is None."""

from credo.kernels.dense_log_density import dense_log_density
from credo.kernels.densities import ValueAndGradient
from credo.kernels.switch import disabled, enabled

__all__ = ["ValueAndGradient", "dense_log_density", "disabled", "enabled"]
