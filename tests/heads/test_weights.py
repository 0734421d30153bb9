"""Weights for each head: a weight of two is a row of that head that comes twice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import credo
from credo import metrics
from credo.core.inputs import TensorTree, stack
from credo.core.trees import flatten
from credo.likelihoods import Categorical, Gaussian, Joint, LearnedGaussian
from credo.loop.preparation import Data, Prepared, prepare
from credo.loop.roles import Roles
from credo.methods import Method

RNG = credo.Stream(0, ("weights of heads",))
N = 12
X = RNG.child("x").normal(N, 3, dtype=torch.float64)
PRICE = X[:, :1] + 0.3 * RNG.child("price").normal(N, 1, dtype=torch.float64)
KIND = (X[:, 1] > 0).long() + (X[:, 2] > 0.5).long()
Y = {"price": PRICE, "kind": KIND}
TIMES = {
    "price": torch.tensor([1, 2, 1, 3, 0, 1, 1, 0, 1, 1, 2, 1]),
    "kind": torch.tensor([1, 1, 2, 0, 2, 1, 1, 0, 3, 1, 1, 1]),
}
WEIGHTS = {name: times.double() for name, times in TIMES.items()}
CPU = torch.device("cpu")


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.price, self.kind = nn.Linear(3, 5), nn.Linear(5, 1), nn.Linear(5, 3)
        self.double()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = torch.tanh(self.body(x))
        return {"price": self.price(h), "kind": self.kind(h)}


def model(price: Any = None) -> credo.Model:
    with RNG.child("net").borrowed_global():
        return credo.Model(Two(), Joint(price=price or LearnedGaussian(), kind=Categorical()))


def repeated() -> tuple[Tensor, dict[str, Tensor]]:
    """Each target as often as it weighs, in rows of its own, where the other head has none."""
    price, kind = (torch.repeat_interleave(torch.arange(N), TIMES[name]) for name in ("price", "kind"))
    y = {
        "price": torch.cat([PRICE[price], torch.full((len(kind), 1), torch.nan, dtype=torch.float64)]),
        "kind": torch.cat([torch.full((len(price),), -100), KIND[kind]]),
    }
    return torch.cat([X[price], X[kind]]), y


def prepared(x: Any, y: Any, weights: Any = None, method: Method | None = None, **roles: Any) -> Prepared:
    data = Data((x, y), Roles(**roles), weights)
    return prepare(model(), data, method or credo.MAP(batch_size=None), credo.Stream(0), CPU, None, 1.0)


def values_and_gradients(run: Prepared) -> list[Tensor]:
    leaves = {n: p.clone().requires_grad_() for n, p in run.variables.params.items()}
    batch = next(run.source.steps(0))
    value = run.target.log_joint(credo.Variables(leaves, run.variables.buffers), batch).sum()
    return [value, *torch.autograd.grad(value, list(leaves.values()))]


def test_a_weight_of_two_is_a_row_of_that_head_that_comes_twice() -> None:
    weighted, apart = prepared(X, Y, WEIGHTS), prepared(*repeated())
    for found, known in zip(values_and_gradients(weighted), values_and_gradients(apart), strict=True):
        torch.testing.assert_close(found, known, rtol=1e-11, atol=1e-11)
    both = dict.fromkeys(Y, WEIGHTS["kind"])  # the twin: one weight for both heads
    twin = values_and_gradients(prepared(X, Y, both))[0]
    assert abs(float((twin - values_and_gradients(weighted)[0]).detach())) > 1.0
    assert weighted.target.size == float(WEIGHTS["price"].sum() + WEIGHTS["kind"].sum()) / 2


@pytest.mark.parametrize(
    "method",
    [credo.MAP(epochs=4), credo.BayesByBackprop(epochs=4), credo.HMC(draws=3, warmup=3), credo.SGLD(draws=3, epochs=6)],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
def test_the_same_weight_for_all_heads_is_a_weight_of_the_example(method: Method) -> None:
    each = WEIGHTS["price"]
    one = credo.fit(model(Gaussian(0.5)), (X, Y), method, weights=each)
    two = credo.fit(model(Gaussian(0.5)), (X, Y), method, weights={"price": each, "kind": each})
    assert one.record.size == two.record.size
    for found, known in zip(flatten(one.tensors()).values(), flatten(two.tensors()).values(), strict=True):
        assert torch.equal(found, known)


def test_weights_reach_every_method_through_batches_members_and_plans() -> None:
    method = credo.DeepEnsemble(members=2, epochs=3, batch_size=5)
    found = [
        credo.fit(model(), (X, Y), method, weights=WEIGHTS, plan=plan).predict(X)["price"].mean  # type: ignore[index]
        for plan in credo.Plan
    ]
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-9)
    plain = credo.fit(model(), (X, Y), method).predict(X)["price"].mean  # type: ignore[index]
    assert not torch.allclose(found[0], plain, rtol=1e-3)
    flipped = {name: torch.stack([w, w.flip(0)]) for name, w in WEIGHTS.items()}
    own = credo.PerMember(
        torch.stack([X, X.flip(0)]), {n: torch.stack([t, t.flip(0)]) for n, t in Y.items()}, weights=flipped
    )
    run = prepared_per_member(own)
    batch, whole = next(run.source.steps(0)), prepared(X, Y, WEIGHTS)
    variables = credo.Variables({n: p.expand(2, *p.shape[1:]) for n, p in whole.variables.params.items()}, {})
    expected = whole.target.log_joint(whole.variables, next(whole.source.steps(0)))
    torch.testing.assert_close(run.target.log_joint(variables, batch), expected.expand(2), rtol=1e-11, atol=1e-11)


def prepared_per_member(data: credo.PerMember) -> Prepared:
    return prepare(
        model(), Data(data, Roles()), credo.DeepEnsemble(members=2, batch_size=None), credo.Stream(0), CPU, None, 1.0
    )


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> Any:
        return X[i], {n: t[i] for n, t in Y.items()}, {n: w[i] for n, w in WEIGHTS.items()}


def test_a_loader_gives_weights_of_heads() -> None:
    loader = DataLoader(Rows(), batch_size=N)
    loaded = credo.fit(model(), loader, credo.HMC(draws=2, warmup=2), weights=2)
    whole = credo.fit(model(), (X, Y), credo.HMC(draws=2, warmup=2), weights=WEIGHTS)
    assert loaded.record.size == whole.record.size
    small = credo.fit(model(), DataLoader(Rows(), batch_size=5, shuffle=True), credo.MAP(epochs=2), weights=2)
    assert small.record.size == whole.record.size


def test_validation_counts_heads_by_their_weights() -> None:
    held = {"price": WEIGHTS["price"], "kind": torch.arange(1.0, N + 1, dtype=torch.float64)}
    found = credo.fit(model(Gaussian(0.5)), (X, Y), credo.MAP(epochs=1), weights=WEIGHTS, validation=(X, Y, held))
    last, prediction = found.history[-1], found.predict(X)
    accuracy = metrics.accuracy(prediction["kind"], KIND, weights=held["kind"])  # type: ignore[index]
    assert last["validation_accuracy.kind"] == pytest.approx(accuracy, abs=1e-12)
    assert accuracy != metrics.accuracy(prediction["kind"], KIND)  # type: ignore[index]
    each = sum(
        float((held[name] * prediction[name].log_prob(y)).sum())  # type: ignore[index]
        for name, y in Y.items()
    )
    size = float(held["price"].sum() + held["kind"].sum()) / 2
    assert last["validation_log_likelihood"] == pytest.approx(each / size, rel=1e-9)


def test_a_bare_network_standardizes_each_target_by_its_own_weights() -> None:
    found = credo.fit(Two(), (X, Y), credo.MAP(epochs=1), weights=WEIGHTS).model.likelihood
    assert isinstance(found, Joint)
    scaled: Any = found.heads[0].likelihood
    mean = float((WEIGHTS["price"].unsqueeze(1) * PRICE).sum() / WEIGHTS["price"].sum())
    assert scaled.loc[0] == pytest.approx(mean, rel=1e-12)
    assert mean != pytest.approx(float(PRICE.mean()), rel=1e-3)


def test_a_target_that_weighs_nothing_may_be_anything() -> None:
    far = {"price": torch.where(WEIGHTS["price"].unsqueeze(1) > 0, PRICE, 1e200), "kind": KIND}
    found = values_and_gradients(prepared(X, far, WEIGHTS))
    for one, other in zip(found, values_and_gradients(prepared(X, Y, WEIGHTS)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
    last = torch.arange(N) < N - 1  # a row that weighs nothing in every head is not there
    rest = {name: w[last] for name, w in WEIGHTS.items()}
    none = {name: torch.where(last, w, 0.0) for name, w in WEIGHTS.items()}
    one = credo.fit(model(), (X, Y), credo.MAP(epochs=3, batch_size=4), weights=none)
    two = credo.fit(
        model(), (X[last], {n: t[last] for n, t in Y.items()}), credo.MAP(epochs=3, batch_size=4), weights=rest
    )
    assert torch.equal(one.predict(X)["price"].mean, two.predict(X)["price"].mean)  # type: ignore[index]


@pytest.mark.parametrize("structure", ["diagonal", "dense"])
def test_the_curvature_of_laplace_weighs_each_head(structure: str) -> None:
    method = credo.Laplace(structure=structure, precision="model")
    start, given = credo.fit(model(Gaussian(0.5)), (X, Y), credo.MAP(epochs=30)), repeated()
    one = credo.fit(start.model, (X, Y), method, start=start, weights=WEIGHTS).predict(X)
    two = credo.fit(start.model, given, method, start=start).predict(X)
    for name in Y:
        torch.testing.assert_close(
            one[name].stddev,
            two[name].stddev,
            rtol=1e-8,
            atol=1e-10,  # type: ignore[index]
        )
    with pytest.raises(ValueError, match="does not know weights of heads"):
        credo.fit(start.model, (X, Y), credo.Laplace(curvature="fisher"), start=start, weights=WEIGHTS)


def test_what_has_no_class_is_none_of_those_that_are_balanced() -> None:
    there = [0, 0, 0, 1]
    found = credo.class_weights([0, -100, 0, 0, 1, -100], weights=[1, 5, 1, 1, 1, 7])
    torch.testing.assert_close(found[[0, 2, 3, 4]], credo.class_weights(there), rtol=1e-12, atol=0.0)
    assert found[[1, 5]].tolist() == [5.0, 7.0]
    assert credo.class_weights([-100, 100, 100], missing=None).tolist() == [1.5, 0.75, 0.75]


BAD: dict[str, tuple[Any, Any, str]] = {
    "another name": (Y, {"cost": WEIGHTS["kind"]}, "there are weights for 'cost', and y has 'price', 'kind'"),
    "another length": (Y, {"kind": torch.ones(5)}, r"weights\['kind'\] has shape \(5,\)"),
    "negative": (Y, {"kind": -WEIGHTS["kind"]}, r"weights\['kind'\] has negative values"),
    "not finite": (Y, {"price": WEIGHTS["price"] / 0}, r"weights\['price'\] has NaN or infinite"),
    "nothing counts": (Y, {n: torch.zeros(N) for n in Y}, "weights are all zero in every head"),
    "no names in y": (PRICE, WEIGHTS, "the weights have names, 'price', 'kind', and y has none"),
    "text": (Y, {"price": "w"}, r"weights\['price'\]"),
    "a name of ours": ({**Y, "price\0weight2": PRICE}, None, "there is no head for the part of y"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_weights_get_a_sentence(case: str) -> None:
    y, weights, sentence = BAD[case]
    with pytest.raises((ValueError, TypeError), match=sentence):
        credo.fit(model(), (X, y), credo.MAP(epochs=1), weights=weights)


def test_a_metric_is_of_one_head_and_takes_its_weights() -> None:
    prediction: Any = credo.fit(model(), (X, Y), credo.MAP(epochs=1)).predict(X)
    with pytest.raises(ValueError, match="give those of one head"):
        metrics.rmse(prediction["price"], PRICE, weights=WEIGHTS)
    assert stack([TensorTree(Y), TensorTree(Y)]).value["kind"].shape == (2, N)
