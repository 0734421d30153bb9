"""What is asked of a posterior that cannot answer is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import credo
from credo import decide, likelihoods
from credo.diagnostics import trust
from credo.methods.base import Method
from credo.posteriors import Posterior

X = credo.Stream(0).normal(20, 3)
DATA = (X, X[:, :1])
METHODS: dict[str, Method] = {
    "UnitNoise": credo.VariationalDropout(epochs=1, correlated=True),
    "Dropout": credo.MCDropout(epochs=1, rate=0.1),
    "Draws": credo.MAP(epochs=1),
}
TOOLS: dict[str, Callable[[Any], object]] = {
    "prune_noise": decide.prune_noise,
    "compression": decide.compression,
    "log_alpha": decide.log_alpha,
    "pruning_curve": lambda posterior: decide.pruning_curve(posterior, DATA),
    "write_sparse": lambda posterior: decide.write_sparse(posterior, "never.safetensors"),
    "trust": lambda posterior: trust(posterior, DATA),
}
WELCOME = {("log_alpha", "UnitNoise"), ("write_sparse", "UnitNoise")}
"""Noise that is shared has an alpha, and its means make a network."""


def fitted(method: Method) -> Posterior:
    return credo.fit(credo.Model(credo.nets.MLP(3, 1, (4,)), likelihoods.Gaussian(0.5)), DATA, method)


@pytest.fixture(scope="module")
def posteriors() -> dict[str, Posterior]:
    return {kind: fitted(method) for kind, method in METHODS.items()}


@pytest.mark.parametrize(("tool", "kind"), [pair for pair in product(TOOLS, METHODS) if pair not in WELCOME])
def test_a_posterior_of_another_kind_is_refused_by_name(tool: str, kind: str, posteriors: dict[str, Posterior]) -> None:
    with pytest.raises(TypeError, match=f"^{tool} needs .*DiagonalGaussian.*BayesByBackprop.*; got {kind}$"):
        TOOLS[tool](posteriors[kind])


def test_trust_sends_nobody_to_a_method_that_it_refuses() -> None:
    with pytest.raises(TypeError) as refused:
        trust(fitted(METHODS["Draws"]), DATA)  # type: ignore[arg-type]
    assert "VariationalDropout" not in str(refused.value)


def test_shared_noise_has_an_alpha_and_means_to_write(tmp_path: Path) -> None:
    posterior: Any = fitted(METHODS["UnitNoise"])
    assert set(decide.log_alpha(posterior)) == {"layers.1.weight", "layers.3.weight"}
    read = decide.read_sparse(decide.write_sparse(posterior, tmp_path / "net.safetensors"))
    assert set(read) == set(posterior.mean.params)


def test_a_member_that_is_not_there_is_refused(tmp_path: Path) -> None:
    two: Any = fitted(credo.Ensemble(credo.BayesByBackprop(epochs=1), members=2))
    for member in (2, 5, -3):
        with pytest.raises(ValueError, match=f"member={member} is not there: the posterior has 2 members, 0 to 1"):
            decide.compression(two, member=member)
        with pytest.raises(ValueError, match=f"member={member} is not there"):
            decide.write_sparse(two, tmp_path / "net.safetensors", member=member)
    assert not list(tmp_path.iterdir())
    assert decide.compression(two, member=-1) == decide.compression(two, member=1)
    with pytest.raises(ValueError, match="one member, 0"):
        decide.compression(fitted(credo.BayesByBackprop(epochs=1)), member=1)  # type: ignore[arg-type]
