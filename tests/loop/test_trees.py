"""Several inputs in a dict or tuple are the same data as one tensor of all of them, for every method."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import credo
from credo import likelihoods
from credo.core.trees import flatten
from credo.methods import Method
from methods_table import methods

N = 20
X = credo.Stream(3, ("trees",)).normal(N, 4)
Y = X[:, :1] * 2 - X[:, 3:]
A, B = X[:, :3], X[:, 3:]
ONCE = credo.MAP(epochs=3, batch_size=8, learning_rate=1e-2)


class Layers(nn.Module):
    """A small net of all columns, with dropout; subclasses say how it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(4, 6), nn.Dropout(0.1), nn.Linear(6, 1)

    def of(self, x: Tensor) -> Tensor:
        return self.last(self.drop(torch.tanh(self.first(x))))


class One(Layers):
    def forward(self, x: Tensor) -> Tensor:
        return self.of(x)


class Two(Layers):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.of(torch.cat([a, b], 1))


class OfDict(Layers):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return self.of(torch.cat([batch.pop("a"), batch.pop("b")], 1))


class OfTuple(Layers):
    def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
        return self.of(torch.cat(pair, 1))


class OfAnything(Layers):
    def forward(self, *args: Tensor, **named: Tensor) -> Tensor:
        return self.of(torch.cat([*args, *named.values()], 1))


class OfBoth(Layers):
    def forward(self, a: Tensor, b: Tensor | None = None, scale: float = 1.0) -> Tensor:
        return self.of(torch.cat([a] if b is None else [a, b], 1) * scale)


class Pair(NamedTuple):
    b: Tensor
    a: Tensor


class Parts(NamedTuple):
    first: Tensor
    second: Tensor


def model(net: type[nn.Module]) -> credo.Model:
    with credo.Stream(9, ("net",)).borrowed_global():
        return credo.Model(net(), likelihoods.Gaussian(0.5))


def same(first: credo.Posterior, second: credo.Posterior) -> bool:
    one, two = first.tensors(), second.tensors()
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.filterwarnings("ignore:the weights miss the posterior:credo.CredoWarning")
@pytest.mark.parametrize("plan", list(credo.Plan))
@pytest.mark.parametrize("method", methods(3, 4).values(), ids=methods(3, 4).keys())
def test_a_pair_of_inputs_is_one_tensor_to_every_method(method: Method, plan: credo.Plan) -> None:
    whole = credo.fit(model(One), (X, Y), method, plan=plan)
    pair = credo.fit(model(Two), ((A, B), Y), method, plan=plan)
    assert same(whole, pair)
    assert torch.equal(whole.predict(X, draws=5).draws, pair.predict((A, B), draws=5).draws)


WAYS: dict[str, tuple[type[nn.Module], Any]] = {
    "positions": (Two, (A, B)),
    "keywords": (Two, {"b": B, "a": A}),
    "a named tuple by its names": (Two, Pair(B, A)),
    "a named tuple by its places": (Two, Parts(A, B)),
    "one dict": (OfDict, {"a": A, "b": B}),
    "one tuple": (OfTuple, (A, B)),
    "any arguments": (OfAnything, (A, B)),
    "any keywords": (OfAnything, {"a": A, "b": B}),
    "an optional argument": (OfBoth, (A, B)),
    "a number for all": (OfBoth, {"a": A, "b": B, "scale": 1}),
    "None": (OfBoth, {"a": X, "b": None}),
    "a tuple of one": (One, (X,)),
    "arrays of doubles": (Two, (A.double().numpy(), B.double().numpy())),
}


@pytest.mark.parametrize(("net", "x"), WAYS.values(), ids=WAYS.keys())
def test_ways_to_call_a_network(net: type[nn.Module], x: Any) -> None:
    whole = credo.fit(model(One), (X, Y), ONCE)
    found = credo.fit(model(net), (x, Y), ONCE)
    assert same(whole, found)
    assert torch.equal(whole.predict(X).mean, found.predict(x).mean)


def test_the_broken_twin_that_gives_parts_in_the_order_of_the_dict_is_told_apart() -> None:
    swapped = credo.fit(model(OfTuple), (((B, A)), Y), ONCE)
    assert not same(credo.fit(model(One), (X, Y), ONCE), swapped)


class Rows(Dataset):
    """Rows as Hugging Face gives them: dicts, with the targets inside."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"a": A[row], "labels": Y[row], "b": B[row]}


def test_a_loader_of_dicts_whose_targets_have_a_name_is_the_table() -> None:
    plain = credo.fit(model(One), DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True), ONCE, validation=(X, Y))
    loader = DataLoader(Rows(), batch_size=8, shuffle=True)
    named = credo.fit(model(Two), loader, ONCE, targets="labels", validation=loader)
    assert same(plain, named)
    for ours, theirs in zip(plain.history, named.history, strict=True):
        assert ours["validation_log_likelihood"] == pytest.approx(theirs["validation_log_likelihood"], abs=1e-6)
    by_place = DataLoader(TensorDataset(A, B, Y), batch_size=8, shuffle=True)
    assert same(plain, credo.fit(model(Two), by_place, ONCE, targets=-1))
    nested = DataLoader([((a, b), y) for a, b, y in zip(A, B, Y, strict=True)], batch_size=8, shuffle=True)
    assert same(plain, credo.fit(model(Two), nested, ONCE))
    whole = {"a": A, "labels": Y, "b": B}
    assert same(credo.fit(model(One), (X, Y), ONCE), credo.fit(model(Two), whole, ONCE, targets="labels"))
    parts = {"x": X, "labels": Y, "idx": torch.arange(N)}
    assert same(credo.fit(model(One), (X, Y), ONCE), credo.fit(model(One), parts, ONCE, inputs="x", targets="labels"))


def test_a_killed_run_on_a_tree_goes_on_to_the_same_bits(tmp_path: Any) -> None:
    data = ({"a": A, "b": B}, Y)
    whole = credo.fit(model(Two), data, credo.MAP(epochs=6, batch_size=8))

    def stop(report: Any) -> None:
        raise KeyboardInterrupt

    checkpoint = credo.Checkpoint(tmp_path / "run", seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        credo.fit(model(Two), data, credo.MAP(epochs=6, batch_size=8), checkpoint=checkpoint, progress=stop)
    resumed = credo.fit(model(Two), data, credo.MAP(epochs=6, batch_size=8), checkpoint=checkpoint, resume=True)
    assert same(whole, resumed)
    other = ({"a": A, "b": B + 1}, Y)
    with pytest.raises(ValueError, match="data"):
        credo.fit(model(Two), other, credo.MAP(epochs=6, batch_size=8), checkpoint=checkpoint, resume=True)


def test_flatten_gives_each_leaf_its_path() -> None:
    tree = {"a": A, "more": Pair(B, A), "flag": True}
    assert list(flatten(tree)) == ["a", "more/0", "more/1"]
