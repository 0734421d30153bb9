"""The evidence bound that variational dropout maximizes."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params, Variables
from credo.methods.dropout.noise import NoiseModel
from credo.methods.vi.layers import find_layers, perturbed_outputs
from credo.model import Batch, Target, likelihood_params


def elbo(
    target: Target,
    model: NoiseModel,
    mean: Variables,
    log_noise: Params,
    batch: Batch,
    rng: Stream,
    kl_weight: float | Tensor = 1.0,
) -> tuple[Tensor, Tensor]:
    """An estimate of the evidence bound by one draw, on the scale of all the data, and of its first term, (M,) each.

    elbo = (E_q[ sum_n log p(y_n | x_n, w) ] + log p(points)) / T - kl_weight KL(q || log-uniform)

    with q(w) = N(theta, alpha theta^2); parameters without noise are points under the model's prior.

    Args:
        target: the data's size N, likelihood, prior, and temperature T.
        model: of the noise.
        mean: theta of the noisy weights, all other parameters, and the buffers.
        log_noise: log alpha, or log sigma^2, of the noisy weights.
        batch: examples.
        rng: of the noise and of the network's own dropout.
        kl_weight: what the KL is multiplied by.
    """
    params = mean.params
    outputs = noisy_outputs(target, model, mean, log_noise, batch, rng)
    each = target.model.likelihood.log_prob(outputs, batch.y, likelihood_params(params))
    log_likelihood = target.data_term(each, batch)
    kl = torch.stack([model.kl(params[name], values) for name, values in log_noise.items()]).sum(0)
    log_prior = log_prior_of_points(target, params, log_noise)
    return target.temper(log_likelihood + log_prior) - kl_weight * kl, log_likelihood


def log_prior_of_points(target: Target, params: Params, noisy: Collection[str]) -> Tensor | float:
    """log p of the parameters without noise, the likelihood's among them, (M,)."""
    points = {name: w for name, w in params.items() if name not in noisy}
    weights = {name: w for name, w in points.items() if name in target.layout}
    of_weights = target.model.prior.log_prob(weights, target.layout) if weights else 0.0
    return of_weights + target.model.likelihood.log_prior(likelihood_params(points))


def noisy_outputs(
    target: Target, model: NoiseModel, mean: Variables, log_noise: Params, batch: Batch, rng: Stream
) -> Tensor:
    """Outputs of the network in training with noise on its weights, (M, B, E).

    Linear and convolutional layers get noise of their own for every example; a weight that is used in another way is
    drawn once for the batch.
    """
    network, params = target.model.network, mean.params
    x = batch.example
    layers = [layer.without_bias() for layer in find_layers(network, mean, x) if layer.weight in log_noise]
    shapes = {layer.weight: (mean.members, batch.examples, *model.noise_shape(layer)) for layer in layers}
    like = {name: params[name].new_empty(()).expand(shape) for name, shape in shapes.items()}
    noise = rng.child("layers").normal_like(like)
    tensors = [[standard, model.variance(params[name], log_noise[name])] for name, standard in noise.items()]
    rest = rng.child("weights").normal_like({n: params[n] for n in log_noise if n not in noise})
    drawn = {name: model.draw(params[name], log_noise[name], standard) for name, standard in rest.items()}
    variables = Variables({**params, **drawn}, mean.buffers)
    return perturbed_outputs(target, layers, model, tensors, variables, batch, rng.child("dropout"))
