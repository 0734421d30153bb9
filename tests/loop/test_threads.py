"""Runs in several threads of one process do not disturb each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

import credo

NET = credo.nets.MLP(1, 1, (4,))
X = torch.linspace(-1, 1, 16).unsqueeze(1)


def weights(seed: int) -> list[torch.Tensor]:
    method = credo.MCDropout(rate=0.1, epochs=2, batch_size=8)
    posterior = credo.fit(NET, (X, X.sin()), method, seed=seed, progress=False)
    return list(posterior.tensors().values())


def test_four_threads_give_the_bits_of_one() -> None:
    seeds = list(range(24))
    alone = [weights(seed) for seed in seeds]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(weights, seeds))
    for one, other in zip(alone, together, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
