"""Variational dropout: multiplicative normal noise on the weights, whose size is learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_positive
from credo.methods.base import Info
from credo.methods.dropout.noise import Additive, ByInput, Correlated, Multiplicative, Noise
from credo.methods.dropout.noisy import NoisyWeights
from credo.methods.dropout.sharing import PerLayer, PerUnit, PerWeight, Sharing, resolved

THRESHOLD = 3.0
"""log alpha above which a weight is noise: 95 % of it, as a dropout rate."""


@dataclass(frozen=True)
class VariationalDropout(NoisyWeights):
    """Gaussian dropout with noise that is learnt: for a layer, for each input unit, or for each weight.

    max  E_q[ sum_n log p(y_n | x_n, w) ] - KL(alpha),   w = theta (1 + sqrt(alpha) noise),   alpha <= 1

    The prior of the noisy weights is log-uniform, p(log |w|) = constant, whatever prior the model has; the KL depends
    on alpha alone. Noise of size alpha acts like a dropout rate of alpha / (1 + alpha). Biases and norms are points
    under the model's prior. A temperature tempers the likelihood, not the KL.

    Args:
        epochs: passes over the data.
        learning_rate: step size for the weights.
        batch_size: examples per step; None for all of them.
        noise_learning_rate: step size for log alpha; None is ten times `learning_rate`.
        optimizer: the update rule.
        schedule: how both step sizes change in the course of the run.
        annealing: what the KL is multiplied by in the course of the run.
        noisy: patterns of the names of the weights that get noise, as in file names ("layers.0.*").
        sharing: which weights have one alpha in common: layer, unit or weight, or a value such as `PerUnit()`.
        correlated: one noise for all weights that leave an input unit, w_oi = theta_oi (1 + sqrt(alpha) noise_i): the
            paper's type B, a single product for each layer, with the log-uniform prior on the noise of the units.
        initial_alpha: of every weight before the first step, at most 1.

    Example:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), VariationalDropout(epochs=5, sharing="unit"))
        >>> sorted(posterior.history[-1])
        ['alpha', 'epoch', 'kl', 'log_likelihood', 'seconds']

    Reference: D. P. Kingma, T. Salimans, M. Welling, "Variational dropout and the local reparameterization trick",
        2015, https://arxiv.org/abs/1506.02557
    """

    sharing: Sharing | str = PerLayer()
    correlated: bool = False
    initial_alpha: float = 0.25

    def __post_init__(self) -> None:
        object.__setattr__(self, "sharing", resolved(self.sharing))
        super().__post_init__()
        if self.correlated and isinstance(self.sharing, PerWeight):
            raise ValueError(
                "correlated=True gives all weights of an input unit the same noise, so they cannot have an alpha each: "
                "use sharing='unit' or sharing='layer', or correlated=False"
            )
        check_positive("initial_alpha", self.initial_alpha)
        if self.initial_alpha > 1.0:
            raise ValueError(
                f"initial_alpha must be at most 1, got {self.initial_alpha}: beyond, the divergence is not known; "
                "SparseVariationalDropout has no such bound"
            )

    @property
    def noise(self) -> Noise:
        sharing = resolved(self.sharing)
        if self.correlated:
            return Correlated(sharing)
        return (ByInput if isinstance(sharing, PerLayer | PerUnit) else Multiplicative)(sharing)

    @property
    def initial(self) -> float:
        return self.initial_alpha

    def told(self, log_alphas: Sequence[Tensor]) -> Info:
        """The mean alpha."""
        return {"alpha": torch.stack([each.exp().flatten(1).mean(1) for each in log_alphas]).mean(0)}


@dataclass(frozen=True)
class SparseVariationalDropout(NoisyWeights):
    """Variational dropout with an alpha for each weight and no bound on it: most weights turn out to be noise.

    max  E_q[ sum_n log p(y_n | x_n, w) ] - KL(alpha),   w = theta + sigma noise,   alpha = sigma^2 / theta^2

    The log-uniform prior, which takes the place of the model's, drives weights that the data do not need to alpha of
    infinity. Those with log alpha above 3 can be removed: `credo.decide.prune_noise(posterior)`.

    Args:
        epochs: passes over the data.
        learning_rate: step size for the weights.
        batch_size: examples per step; None for all of them.
        noise_learning_rate: step size for log sigma^2; None is ten times `learning_rate`.
        optimizer: the update rule.
        schedule: how both step sizes change in the course of the run.
        annealing: what the KL is multiplied by in the course of the run. Without a warm-up, or a trained net to start
            from, all weights of a large net may be taken for noise before they have learnt anything.
        noisy: patterns of the names of the weights that get noise, as in file names ("layers.0.*").
        initial_scale: sigma of every weight before the first step.

    Example:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), SparseVariationalDropout(epochs=5))
        >>> sorted(posterior.history[-1])
        ['epoch', 'kl', 'log_likelihood', 'removable', 'seconds']

    Reference: D. Molchanov, A. Ashukha, D. Vetrov, "Variational dropout sparsifies deep neural networks", 2017,
        https://arxiv.org/abs/1701.05369
    """

    initial_scale: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("initial_scale", self.initial_scale)

    @property
    def noise(self) -> Additive:
        return Additive()

    @property
    def initial(self) -> float:
        return self.initial_scale

    def told(self, log_alphas: Sequence[Tensor]) -> Info:
        """The part of the weights that could be removed."""
        noise = torch.stack([(each > THRESHOLD).flatten(1).sum(1) for each in log_alphas]).sum(0)
        return {"removable": noise / sum(each[0].numel() for each in log_alphas)}
