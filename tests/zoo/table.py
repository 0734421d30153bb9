"""The methods of the zoo, and what is expected of every cell: `expected.txt` was written down first."""

from __future__ import annotations

from pathlib import Path

import credo

FAST = {"epochs": 2, "batch_size": 4}
METHODS = {
    "map": credo.MAP(**FAST),
    "ensemble": credo.DeepEnsemble(members=2, **FAST),
    "mc-dropout": credo.MCDropout(rate=0.1, **FAST),
    "concrete": credo.ConcreteDropout(**FAST),
    "vi": credo.BayesByBackprop(**FAST),
    "flipout": credo.BayesByBackprop(estimator="flipout", **FAST),
    "black-box": credo.BlackBoxVI(samples=2, **FAST),
    "variational": credo.VariationalDropout(**FAST),
    "swag": credo.SWAG(every=1, draws=3, **FAST),
    "sgld": credo.SGLD(draws=2, **FAST),
    "hmc": credo.HMC(draws=1, warmup=1, chains=2),
}
SENTENCES = {
    "n": "needs a network without it; use nn.LayerNorm",
    "c": "gradient checkpointing, whose second pass",
    "l": r"must not depend on chance \(layer drop\)",
    "d": "there is no hidden layer to drop",
    "a": "alpha dropout, whose rate cannot be learned",
    "t": "in training only, in code that evaluation never reaches",
    "e": "random numbers of its own in evaluation too",
    "p": "draws random numbers from Python's random",
    "g": "no gradient by its weights",
    "k": "wrapped in DataParallel",
    "z": "lazy layers with no shape",
    "b": r"in which ones are the exception \(drop block\)",
}
"""Refusals that belong to a method or to the kind of module, by the letter of the table."""
WORKS = "+"
PATH = Path(__file__).with_name("expected.txt")


def expected() -> dict[str, dict[str, str]]:
    """The letter of every cell, by row and method."""
    head, *rows = [line for line in PATH.read_text(encoding="utf-8").splitlines() if line]
    methods = head.split()
    assert methods == list(METHODS)
    found = {}
    for row in rows:
        *name, cells = row.rsplit(None, len(methods))[0], row.split()[-len(methods) :]
        found[name[0].strip()] = dict(zip(methods, cells, strict=True))
    return found
