"""How long a batch takes to choose: ten inputs of a pool of 10,000, with 100 draws and ten classes, on one thread.

BatchBALD with 1,000 joint labels is to take less than 10 seconds, with 10,000 less than 60. Processor time is taken:
other programs on the machine disturb it little.
"""

from __future__ import annotations

import time

import torch

import credo
from credo import likelihoods
from credo.decide import acquire
from credo.predictive import predictive

POOL, DRAWS, CLASSES, BATCH = 10_000, 100, 10, 10
PROMISED = {1_000: 10.0, 10_000: 60.0}


def main() -> None:
    torch.set_num_threads(1)
    rng = credo.Stream(0)
    logits = 3.0 * rng.child("inputs").normal(POOL, CLASSES) + rng.child("draws").normal(DRAWS, POOL, CLASSES)
    classes = predictive(likelihoods.Categorical(), logits, {}, torch.zeros(DRAWS))
    numbers = predictive(likelihoods.Gaussian(0.5), logits[..., :1], {}, torch.zeros(DRAWS))
    print(f"{BATCH} of {POOL:,} inputs, {DRAWS} draws")
    for configurations, limit in PROMISED.items():
        begin = time.process_time()
        acquire(classes, BATCH, "batchbald", configurations=configurations)
        seconds = time.process_time() - begin
        verdict = "met" if seconds < limit else "MISSED"
        print(f"BatchBALD, {configurations:6,} configurations {seconds:8.2f} s  promised {limit:.0f} s: {verdict}")
    for name, prediction in (("BALD, classes", classes), ("BatchBALD, numbers", numbers)):
        begin = time.process_time()
        acquire(prediction, BATCH, "bald" if prediction is classes else "batchbald")
        print(f"{name:<31} {time.process_time() - begin:8.2f} s")


if __name__ == "__main__":
    main()
