"""The KL of normal noise on weights from the log-uniform prior, by the two approximations in print.

q(w) = N(theta, alpha theta^2),  p(log |w|) = constant.  The KL depends on alpha alone,

    KL(alpha) = E[log |e|] - log(alpha) / 2 + (gamma + log 2) / 2,   e ~ N(1, alpha),

up to the constant of an improper prior, which is chosen here so that it goes to 0 where alpha goes to infinity.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

EULER_GAMMA = 0.5772156649015329
OFFSET = (EULER_GAMMA + 0.6931471805599453) / 2
"""(gamma + log 2) / 2 = -E[log |z|] of a standard normal z."""


def cubic_kl(log_alpha: Tensor) -> Tensor:
    """Of the weights of each member, (M,), for alpha up to 1, where it is too small by up to 0.041 nats a weight.

    KL = (gamma + log 2) / 2 - log(alpha) / 2 - c1 alpha - c2 alpha^2 - c3 alpha^3

    Args:
        log_alpha: (M, ...); beyond an alpha of 1 the cubic is of no use.

    Reference: D. P. Kingma, T. Salimans, M. Welling, "Variational dropout and the local reparameterization trick",
        2015, equation 14, https://arxiv.org/abs/1506.02557
    """
    c1, c2, c3 = 1.16145124, -1.50204118, 0.58629921
    alpha, count = log_alpha.exp(), log_alpha[0].numel()
    square = alpha.square()
    # each power is summed by itself: a graph of sums is half as expensive as the sum of a graph
    return count * OFFSET - 0.5 * _sum(log_alpha) - c1 * _sum(alpha) - c2 * _sum(square) - c3 * _sum(alpha * square)


def sigmoid_kl(log_alpha: Tensor) -> Tensor:
    """Of the weights of each member, (M,), for every alpha, off by less than 0.01 nats a weight.

    KL = k1 - k1 sigmoid(k2 + k3 log alpha) + log(1 + 1 / alpha) / 2

    Args:
        log_alpha: (M, ...).

    Reference: D. Molchanov, A. Ashukha, D. Vetrov, "Variational dropout sparsifies deep neural networks", 2017,
        equation 14, https://arxiv.org/abs/1701.05369
    """
    k1, k2, k3 = 0.63576, 1.87320, 1.48695
    # 1 - sigmoid(a) is sigmoid(-a), which keeps its digits where alpha is large
    return k1 * _sum(torch.sigmoid(-k2 - k3 * log_alpha)) - 0.5 * _sum(F.logsigmoid(log_alpha))


def _sum(tensor: Tensor) -> Tensor:
    """Of each member, (M,)."""
    return tensor.flatten(1).sum(1)
