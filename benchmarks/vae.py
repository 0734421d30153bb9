"""An epoch of the variational autoencoder against a loop by hand in plain torch, in one run.

The setting of Lee's KAIST tutorial: 1000 images of 784 gray values in batches of 100, 784-500-500-20, Adam. Best of
several interleaved repeats; run with `python benchmarks/vae.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from credo import Stream, generative, likelihoods
from credo.nets import Autoencoder

EPOCHS, REPEATS = 20, 5


def by_hand(x: Tensor) -> None:
    net = Autoencoder((784,), 20)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(100):
            batch = x[rows]
            mean, scale = net.encode(batch)
            logits = net.decode(mean + scale * torch.randn_like(scale))
            kl = (0.5 * (mean.square() + scale.square() - 1) - scale.log()).sum()
            loss = (F.binary_cross_entropy_with_logits(logits, batch, reduction="sum") + kl) / len(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def ours(x: Tensor) -> None:
    vae = generative.VAE(latent=20, likelihood=likelihoods.GrayCrossEntropy())
    generative.fit(vae, x, generative.AutoEncodingBayes(epochs=EPOCHS), progress=False)


def seconds(run: Callable[[Tensor], None], x: Tensor) -> float:
    start = time.perf_counter()
    run(x)
    return time.perf_counter() - start


def main() -> None:
    x = torch.rand(1000, 784, generator=Stream(0).generator())
    best = [min(pair) for pair in zip(*((seconds(by_hand, x), seconds(ours, x)) for _ in range(REPEATS)), strict=True)]
    hand, own = (1000 * each / EPOCHS for each in best)
    print(f"an epoch by hand {hand:.0f} ms, ours {own:.0f} ms: {own / hand:.2f}")


if __name__ == "__main__":
    main()
