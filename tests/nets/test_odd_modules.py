"""Modules that torch has wrapped, compiled or hooked, and those that cannot be trained as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import credo

X = credo.Stream(0, ("odd modules",)).normal(20, 4)
Y = X[:, :1] - X[:, 1:2]


def plain() -> nn.Sequential:
    with credo.Stream(1).borrowed_global():
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 1))


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


def whole() -> Any:
    return torch.compile(plain(), backend="eager")


def inside() -> Any:
    net = plain()
    return nn.Sequential(*(torch.compile(layer, backend="eager") for layer in net))


def in_place() -> Any:
    net = plain()
    net.compile(backend="eager")
    return net


@pytest.mark.parametrize("make", [whole, inside, in_place], ids=lambda make: make.__name__)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_compiled_module_is_the_module_before(make: Any, tmp_path: Path) -> None:
    for method in (credo.MCDropout(epochs=3), credo.DeepEnsemble(members=2, epochs=3)):
        one, two = (credo.fit(net, (X, Y), method) for net in (make(), plain()))
        assert torch.equal(one.predict(X).draws, two.predict(X).draws)
    assert torch.equal(credo.load(one.save(tmp_path), plain()).predict(X).mean, two.predict(X).mean)
    method = credo.MAP(epochs=1, learning_rate=1e-30)
    begun = [credo.fit(plain(), (X, Y), method, start=start) for start in (make(), make().state_dict(), plain())]
    for posterior in begun[1:]:
        assert torch.equal(begun[0].predict(X).mean, posterior.predict(X).mean)


def test_hooks_on_gradients_of_modules_are_called_and_those_of_parameters_are_named() -> None:
    stopped = plain()
    stopped[3].register_full_backward_pre_hook(lambda module, found: tuple(0.0 * each for each in found))
    method = credo.MAP(epochs=3, learning_rate=0.1)
    model = credo.Model(stopped, credo.likelihoods.Gaussian(1.0), credo.priors.Normal(scale=1e9))
    given = dict(stopped.named_parameters())
    after = credo.fit(model, (X, Y), method, start=stopped).members().params
    assert torch.equal(after["3.weight"][0], given["3.weight"])
    held = plain()
    held[0].weight.register_hook(lambda found: 0.0 * found)
    for posterior in (credo.fit(held, (X, Y), credo.MAP(epochs=1)), credo.fit(held, (X, Y), credo.MCDropout(epochs=1))):
        assert any(re.search(r"hooks on the gradients of 0\.weight are not called", note) for note in posterior.notes)


class Overwrites(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu_()
        h += 1.0  # relu needs its output for the way back
        return self.last(h)


def test_what_cannot_be_trained_or_made_is_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"changes a tensor in place .* that its gradient needs"):
        credo.fit(Overwrites(), (X, Y), credo.MAP(epochs=1))
    assert credo.fit(Overwrites(), (X, Y), credo.Metropolis(draws=3)).predict(X).mean.shape == (20, 1)
    for wrong in (lambda x: x, nn.Linear):
        with pytest.raises(TypeError, match="a function or class that needs arguments"):
            credo.Model(wrong)  # type: ignore[arg-type]


def test_a_batch_of_one_example_and_numbers_that_are_none() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
    loader = DataLoader(TensorDataset(X, Y), batch_size=19)
    for method in (credo.MAP(epochs=1), credo.DeepEnsemble(members=2, epochs=1), credo.BayesByBackprop(epochs=1)):
        with pytest.raises(ValueError, match=r"one of the batches has a single example.*drop_last=True"):
            credo.fit(net, loader, method)
    with pytest.raises(ValueError, match="y is complex: give real and imaginary parts"):
        credo.fit(plain(), (X, Y + 0j), credo.MAP(epochs=1))
    with pytest.raises(TypeError, match="x is on the device meta"):
        credo.fit(plain(), (X.to("meta"), Y), credo.MAP(epochs=1))
