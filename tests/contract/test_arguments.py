"""What a newcomer writes first, and the sentence that answers it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import credo
from credo import likelihoods, nets, priors

X = torch.linspace(-1.0, 1.0, 12).reshape(6, 2)
Y = X.sum(1, keepdim=True)
QUICK = credo.MAP(epochs=1)


def net() -> nets.MLP:
    return nets.MLP(2, 1, 5)


def fit(**wishes: object) -> credo.Posterior:
    return credo.fit(net(), (X, Y), QUICK, **{"progress": False, **wishes})  # type: ignore[arg-type]


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "likelihood by name": (lambda: credo.Model(net(), "gaussian"), "likelihood must be .*Gaussian.*got 'gaussian'"),
    "likelihood not made": (lambda: credo.Model(net(), likelihoods.Gaussian), r"likelihood .* write Gaussian\(\)"),
    "prior as a number": (lambda: credo.Model(net(), None, 1.0), r"prior must be .*priors.Normal\(\)"),
    "prior for likelihood": (lambda: credo.Model(net(), priors.Normal()), "likelihood must be"),
    "device": (lambda: fit(device="gpu"), "device must be .*'cuda', got 'gpu'"),
    "seconds": (lambda: fit(seconds="a"), "seconds must be a positive number, got 'a'"),
    "no seconds": (lambda: fit(seconds=0), "seconds must be a positive number, got 0"),
    "temperature": (lambda: fit(temperature=None), "temperature must be a positive number, got None"),
    "plan": (lambda: fit(plan="sideways"), "plan must be one of .*, got 'sideways'"),
    "checkpoint": (lambda: fit(checkpoint=3), "checkpoint must be .* Path .* got 3"),
    "progress": (lambda: fit(progress="yes"), "progress must be True or False or None, got 'yes'"),
    "samples": (lambda: fit().predict(X).sample(2.5), "count must be a whole number such as 10, got 2.5"),
    "targets for a number": (lambda: fit().predict(X).sample(Y), "count must be a whole number"),
    "level of text": (lambda: fit().predict(X).interval("a"), "level must lie between 0 and 1, got 'a'"),
    "level in per cent": (lambda: fit().predict(X).interval(95), "level must lie between 0 and 1, got 95"),
    "quantile": (lambda: fit().predict(X).quantile(None), "level must lie between 0 and 1, got None"),
    "inputs": (lambda: nets.MLP("a", 1), "inputs must be a whole number such as 10, got 'a'"),
    "outputs": (lambda: nets.MLP(2, 0), "outputs must be a whole number of at least 1, got 0"),
    "hidden": (lambda: nets.MLP(2, 1, (5, 0)), "hidden must be a whole number of at least 1, got 0"),
    "dropout": (lambda: nets.MLP(2, 1, dropout=50), "dropout must lie between 0 and 1"),
}


@pytest.mark.parametrize(("mistake", "answer"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_answered_in_a_sentence(mistake: Callable[[], object], answer: str) -> None:
    with pytest.raises((TypeError, ValueError), match=answer):
        mistake()


def test_one_hidden_layer_may_be_a_number() -> None:
    assert nets.MLP(2, 1, 5).config == nets.MLP(2, 1, (5,)).config
    assert nets.MLP(2, 1, ()).config["hidden"] == []
