"""What each kernel gains over plain autograd: ratios in one run, interleaved, best of several repeats.

A kernel that gains less than 1.25 times does not belong into the tree.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

import credo
from credo import kernels, likelihoods, priors
from credo.methods.mcmc.log_density import LogDensity
from credo.model import Batch
from timing import HEADER, best_of, row

CHAINS, ROWS, CALLS, LEAST = 4, 500, 50, 1 / 1.25
PROBLEMS = {
    "numbers, 13-50-1": (13, 1, likelihoods.Gaussian(0.3)),
    "numbers with learned noise, 13-50-1": (13, 1, likelihoods.LearnedGaussian()),
    "classes, 13-50-5": (13, 5, likelihoods.Categorical()),
}


def evaluation(inputs: int, outputs: int, likelihood: likelihoods.Likelihood) -> Callable[[], int]:
    """Values and gradients of the log density of some chains, again and again."""
    rng = credo.Stream(0)
    x = rng.child("x").normal(ROWS, inputs)
    y = torch.arange(ROWS) % outputs if outputs > 1 else x[:, :1].sin()
    model = credo.Model(credo.nets.MLP(inputs, outputs, (50,), activation="tanh"), likelihood, priors.Normal(1.0))
    variables = model.complete(model.network.initial(CHAINS, rng), outputs)
    log_density = LogDensity(credo.Target(model, size=ROWS), Batch(x, y), variables)
    position = log_density.flat(variables.params)
    log_density.value_and_gradient(position)  # which chooses a kernel once and for all

    def repeat() -> int:
        for _ in range(CALLS):
            log_density.value_and_gradient(position)
        return CALLS

    return repeat


def main() -> None:
    torch.set_num_threads(1)
    print(HEADER)
    for name, problem in PROBLEMS.items():
        fast = evaluation(*problem)
        with kernels.disabled():
            plain = evaluation(*problem)
        best = best_of({"kernel": fast, "autograd": plain})
        title = f"log density and gradient, {CHAINS} chains, {name}: kernel / autograd"
        print(row(title, best["kernel"], best["autograd"], LEAST))


if __name__ == "__main__":
    main()
