"""One network in several threads at a time, as a server asks a posterior and a search fits a model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

import credo
from credo import likelihoods

X = credo.Stream(0).normal(20, 1, 6, 6)
Y = X.mean((2, 3))
METHODS = {
    "ensemble": credo.DeepEnsemble(3, epochs=2),
    "variational": credo.BayesByBackprop(epochs=2, initial_scale=0.3, estimator="local"),
}


def net() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 1))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_a_posterior_answers_several_threads_at_a_time(method: credo.Method) -> None:
    posterior = credo.fit(credo.Model(net(), likelihoods.Gaussian()), (X, Y), method, progress=False)

    def asked(first: int) -> Tensor:
        return posterior.predict(X[first:], draws=10).mean

    alone = [asked(i % 3) for i in range(45)]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(asked, (i % 3 for i in range(45))))
    assert all(torch.equal(*pair) for pair in zip(alone, together, strict=True))


def test_a_model_is_fitted_in_several_threads_at_a_time() -> None:
    model = credo.Model(net(), likelihoods.Gaussian())

    def fitted(seed: int) -> Tensor:
        return credo.fit(model, (X, Y), METHODS["variational"], seed=seed, progress=False).predict(X, draws=5).mean

    alone = [fitted(seed) for seed in range(6)]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(fitted, range(6)))
    assert all(torch.equal(*pair) for pair in zip(alone, together, strict=True))


def test_a_twin_that_lends_all_threads_one_module_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("credo.nets.forward.thread_copy", lambda module: module)

    def rounds() -> None:
        for _ in range(300):  # a race, which about one round in six loses
            test_a_posterior_answers_several_threads_at_a_time(METHODS["ensemble"])

    with pytest.raises((AssertionError, RuntimeError)):
        rounds()
