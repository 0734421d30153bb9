"""A step of the local reparameterization written out for one network, with no library in the way.

What it costs against a plain step is what the arithmetic costs: two products for every one of a plain layer, forward
and back, the softplus of every rho, and Adam on twice as many numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

SHAPES = ((400, 784), (400,), (400, 400), (400,), (10, 400), (10,))
LAYERS, BATCH = 3, 128
TINY = torch.finfo(torch.float32).tiny


def local_step(x: Tensor, y: Tensor) -> Callable[[Tensor], None]:
    """A function that makes one step on the chosen examples: q starts at small random means, the prior is N(0, 1)."""
    total = sum(torch.Size(shape).numel() for shape in SHAPES)
    mean, rho = 0.03 * torch.randn(total), torch.full((total,), -3.0)
    scale, variance, by_mean, by_rho = (torch.empty(total) for _ in range(4))
    memory = [[torch.zeros(total) for _ in range(2)] for _ in range(2)]
    ages = [torch.zeros(()), torch.zeros(())]
    means, variances, of_means, of_variances = map(_views, (mean, variance, by_mean, by_rho))
    noise = [torch.empty(BATCH, shape[0]) for shape in SHAPES[::2]]
    share = 1.0 / len(x)

    def forward(hidden: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor, Tensor]]]:
        trail = []
        for i in range(LAYERS):
            squares = hidden * hidden
            spread = F.linear(squares, variances[2 * i], variances[2 * i + 1]).clamp_min_(TINY).sqrt_()
            trail.append((hidden, squares, spread))
            hidden = F.linear(hidden, means[2 * i], means[2 * i + 1]).addcmul_(spread, noise[i].normal_())
            hidden = hidden.relu_() if i < LAYERS - 1 else hidden
        return hidden, trail

    def backward(gradient: Tensor, trail: list[tuple[Tensor, Tensor, Tensor]]) -> None:
        for i in reversed(range(LAYERS)):
            hidden, squares, spread = trail[i]
            of_variance = torch.div(noise[i], spread).mul_(gradient).mul_(0.5)
            torch.mm(gradient.T, hidden, out=of_means[2 * i])
            torch.sum(gradient, 0, out=of_means[2 * i + 1])
            torch.mm(of_variance.T, squares, out=of_variances[2 * i])
            torch.sum(of_variance, 0, out=of_variances[2 * i + 1])
            if i:
                back = (gradient @ means[2 * i]).addcmul_(hidden, of_variance @ variances[2 * i], value=2.0)
                gradient = torch.ops.aten.threshold_backward(back, hidden, 0.0)

    @torch.no_grad()
    def step(chosen: Tensor) -> None:
        torch._C._nn.softplus(rho, out=scale)
        torch.mul(scale, scale, out=variance)
        outputs, trail = forward(x[chosen])
        gradient = outputs.softmax(1)
        gradient[torch.arange(len(chosen)), y[chosen]] -= 1.0
        backward(gradient.div_(len(chosen)), trail)
        by_mean.add_(mean, alpha=share)
        by_rho.mul_(2.0).add_(share).mul_(scale)  # by the scales: 2 scale d/dvariance + share (scale - 1 / scale)
        by_rho.sub_(torch.reciprocal(scale, out=variance), alpha=share).mul_(torch.sigmoid(rho, out=scale))
        for age in ages:
            age.add_(1.0)
        torch._fused_adam_(
            *([mean, rho], [by_mean, by_rho], [m[0] for m in memory], [m[1] for m in memory], [], ages),
            **{"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0, "eps": 1e-8},
            **{"amsgrad": False, "maximize": False},
        )

    return step


def _views(row: Tensor) -> list[Tensor]:
    parts = torch.split(row, [torch.Size(shape).numel() for shape in SHAPES])
    return [part.view(shape) for part, shape in zip(parts, SHAPES, strict=True)]
