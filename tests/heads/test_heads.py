"""Several heads: one likelihood for targets of different kinds, in every method and at every door."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import credo
from credo import likelihoods, metrics
from credo.core.trees import flatten
from credo.likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, Joint, LearnedGaussian
from credo.methods import Method
from credo.model import Batch, Target
from credo.nets.plan import Plan
from credo.predictive import JointPredictive
from methods_table import methods

RNG = credo.Stream(13, ("several heads",))
N = 24
X = RNG.child("x").normal(N, 3)
PRICE = X.sum(1) + 0.1 * RNG.child("noise").normal(N)
KIND = (X[:, 0] > 0).long() + (X[:, 1] > 1).long()
Y = {"price": PRICE, "kind": KIND}
Pair = namedtuple("Pair", ["price", "kind"])


class Two(nn.Module):
    """A price and a kind out of one body."""

    def __init__(self, returns: Callable[[Tensor, Tensor], Any] | None = None) -> None:
        super().__init__()
        self.body, self.price, self.kind = nn.Linear(3, 6), nn.Linear(6, 1), nn.Linear(6, 3)
        self.returns = returns

    def forward(self, x: Tensor) -> Any:
        h = torch.tanh(self.body(x))
        price, kind = self.price(h), self.kind(h)
        return {"kind": kind, "price": price} if self.returns is None else self.returns(price, kind)


def joint() -> Joint:
    return Joint(price=LearnedGaussian(), kind=Categorical())


def model(net: nn.Module | None = None, **options: Any) -> credo.Model:
    return credo.Model(net or Two(), joint(), **options)


def settled(net: nn.Module, given: credo.likelihoods.Likelihood, y: dict[str, Tensor], x: Tensor) -> Any:
    """A target, its variables and y in float64, as `fit` prepares them."""
    found = credo.fit(credo.Model(net, given), (x, y), credo.MAP(epochs=1)).model
    variables = found.complete(found.network.given(), found.outputs(found.network.given(), x))
    tree = credo.core.inputs.TensorTree(y)
    return Target(found, len(x)), variables, found.likelihood.check_targets(tree, 0)


def values_and_gradients(target: Target, variables: credo.Variables, batch: Batch) -> list[Tensor]:
    leaves = credo.Variables({n: p.clone().requires_grad_() for n, p in variables.params.items()}, variables.buffers)
    value = target.log_joint(leaves, batch).sum()
    return [value, *torch.autograd.grad(value, list(leaves.params.values()))]


def by_hand(target: Target, variables: credo.Variables, x: Tensor, kept: dict[str, Tensor]) -> Tensor:
    """The log likelihood of both heads, example by example."""
    net = Two().double()
    net.load_state_dict({n: t[0] for n, t in variables.params.items() if not n.startswith("likelihood.")})
    out, scale = net(x), variables.params["likelihood.price.log_scale"][0, 0].exp()
    total = x.new_zeros(())
    for i in range(len(x)):
        if kept["price"][i]:
            total = total + torch.distributions.Normal(out["price"][i, 0], scale).log_prob(PRICE[i].double())
        if kept["kind"][i]:
            total = total + out["kind"][i].log_softmax(0)[KIND[i]]
    return total


KEPT = {"price": RNG.child("price").normal(N) > 0, "kind": RNG.child("kind").normal(N) > 0}
MISSING = {
    "price": torch.where(KEPT["price"], PRICE, torch.nan).double(),
    "kind": torch.where(KEPT["kind"], KIND, -100),
}


@pytest.mark.parametrize("some", [False, True], ids=["all observed", "some observed"])
def test_the_log_density_is_the_sum_over_heads_and_examples(some: bool) -> None:
    y = MISSING if some else {"price": PRICE.double(), "kind": KIND}
    kept = KEPT if some else {name: torch.ones(N, dtype=torch.bool) for name in KEPT}
    target, variables, targets = settled(Two().double(), joint(), y, X.double())
    variables.params["likelihood.price.log_scale"].fill_(-0.7)
    found = target.log_likelihood(variables, Batch(X.double(), targets)).sum()
    torch.testing.assert_close(found, by_hand(target, variables, X.double(), kept), rtol=1e-10, atol=0.0)
    wrong = by_hand(target, variables, X.double(), {**kept, "kind": ~kept["kind"]})  # the twin
    assert abs(float((found - wrong).detach())) > 1.0


def test_heads_are_two_fits_whose_networks_share_nothing() -> None:
    """With a body of its own for each head, the joint log density and its gradients are those of two models."""

    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.price, self.kind = nn.Linear(3, 1), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"price": self.price(x), "kind": self.kind(x)}

    net = Apart().double()
    target, variables, y = settled(net, joint(), {"price": PRICE.double(), "kind": KIND}, X.double())
    both = values_and_gradients(target, variables, Batch(X.double(), y, factor=1.0))
    apart = []
    for part, likelihood, values in (
        (net.price, LearnedGaussian(), PRICE.double().unsqueeze(1)),
        (net.kind, Categorical(), KIND),
    ):
        one = Target(credo.Model(part, likelihood), N)
        given = one.model.complete(one.model.network.given(), 1)
        apart.append(values_and_gradients(one, given, Batch(X.double(), values, factor=1.0)))
    torch.testing.assert_close(both[0], apart[0][0] + apart[1][0], rtol=1e-12, atol=0.0)
    expected = [*apart[0][1:3], *apart[1][1:], apart[0][3]]  # the learned scale comes last
    for found, known in zip(both[1:], expected, strict=True):
        torch.testing.assert_close(found, known, rtol=1e-10, atol=1e-12)


def test_missing_targets_change_nothing_and_their_gradient_is_finite() -> None:
    target, variables, y = settled(Two().double(), joint(), MISSING, X.double())
    found = values_and_gradients(target, variables, Batch(X.double(), y, factor=1.0))
    assert all(bool(g.isfinite().all()) for g in found)
    rest = {name: KEPT[name].nonzero()[:, 0] for name in KEPT}
    parts = [target.log_prior(variables.params)[0]]
    for name, rows in rest.items():
        other = {n: torch.full_like(t, torch.nan if n == "price" else -100) for n, t in MISSING.items() if n != name}
        some = {name: MISSING[name][rows], **{n: t[rows] for n, t in other.items()}}
        targets = target.model.likelihood.check_targets(credo.core.inputs.TensorTree(some), 0)
        parts.append(target.log_likelihood(variables, Batch(X.double()[rows], targets)).sum())
    torch.testing.assert_close(found[0], torch.stack(parts).sum(), rtol=1e-12, atol=0.0)


ALL = methods(epochs=2, iterations=4)


@pytest.mark.filterwarnings("ignore:the weights miss the posterior")
@pytest.mark.parametrize("method", ALL.values(), ids=ALL)
def test_every_method_takes_several_heads(method: Method, tmp_path: Path) -> None:
    y = {"price": torch.where(KEPT["price"], PRICE, torch.nan), "kind": KIND}
    posterior = credo.fit(model(), (X, y), method, validation=(X, y))
    prediction = posterior.predict(X, draws=3)
    assert isinstance(prediction, JointPredictive)
    assert prediction["price"].mean.shape == (N, 1)
    assert prediction["kind"].mean.shape == (N, 3)
    assert prediction.log_prob(y).shape == (N,)
    assert bool(prediction.log_prob(y).isfinite().all())
    assert "likelihood.price.log_scale" in posterior.members(1).params
    assert 0.0 <= posterior.history[-1]["validation_accuracy.kind"] <= 1.0
    posterior.save(tmp_path / "run")
    loaded = credo.load(tmp_path / "run", Two())
    assert torch.equal(loaded.predict(X, draws=3).log_prob(y), prediction.log_prob(y))


def test_log_prob_is_the_log_of_a_mixture_of_products() -> None:
    posterior = credo.fit(model(), (X, Y), credo.DeepEnsemble(members=3, epochs=30, learning_rate=0.03))
    prediction = posterior.predict(X)
    price, kind = prediction["price"], prediction["kind"]
    each = price.likelihood.log_prob(price.draws, PRICE.unsqueeze(1), price.params)
    each = each + kind.likelihood.log_prob(kind.draws, KIND, kind.params)
    known = torch.logsumexp(each.double(), 0) - torch.tensor(3.0).log()
    torch.testing.assert_close(prediction.log_prob(Y).double(), known, rtol=1e-5, atol=1e-5)  # float32 weights
    apart = price.log_prob(PRICE) + kind.log_prob(KIND)  # the twin: members of the heads taken apart
    assert float((prediction.log_prob(Y) - apart).abs().max()) > 1e-3


def test_samples_of_both_heads_come_from_the_same_draw() -> None:
    draws = torch.tensor([[[-50.0, 50.0, 0.0]], [[50.0, 0.0, 50.0]]])
    given = Joint(a=Gaussian(0.1), b=Categorical())
    heads = tuple(
        likelihoods.Head(h.name, h.likelihood, shape) for h, shape in zip(given.heads, [(1,), (2,)], strict=True)
    )
    prediction = credo.predictive.predictive(given.with_heads(heads), draws, {}, torch.zeros(2))
    samples = prediction.sample(200, seed=3)
    assert torch.equal((samples["a"][:, 0, 0] > 0).long(), samples["b"][:, 0])
    assert 60 < int(samples["b"].sum()) < 140  # of 200 fair coins, less than one in 10^7


def test_where_the_heads_are() -> None:
    def cut(out: Tensor) -> dict[str, Tensor]:
        return {"price": out[:, :1], "kind": out[:, 1:]}

    method = credo.MAP(epochs=3)
    known = credo.fit(model(), (X, Y), method).predict(X)
    nets = {
        "a named tuple": model(Two(Pair)),
        "places": model(Two(lambda p, k: (k, p)), outputs={"price": 1, "kind": 0}),
        "keys": model(Two(lambda p, k: {"out": {"p": p, "k": k}}), outputs={"kind": "out/k", "price": "out/p"}),
        "a function": model(Two(lambda p, k: torch.cat([p, k], 1)), outputs=cut),
    }
    for name, each in nets.items():
        found = credo.fit(each, (X, Y), method).predict(X)
        assert torch.equal(found["price"].mean, known["price"].mean), name
        assert torch.equal(found["kind"].probs, known["kind"].probs), name


def test_a_bare_network_chooses_for_each_head_and_standardizes() -> None:
    grams = PRICE * 1e4 + 7e4
    y = {"price": torch.where(KEPT["price"], grams, torch.nan), "kind": KIND}
    method = credo.MAP(epochs=40, learning_rate=0.03)
    posterior = credo.fit(Two(), (X, y), method)
    said = " ".join(posterior.notes)
    assert "head 'price': likelihood: LearnedGaussian" in said
    assert "head 'kind': likelihood: Categorical" in said
    assert "y['price']" in said
    inputs, seen = (X - X.mean(0)) / X.std(0, correction=0), grams[KEPT["price"]].double()
    z = (y["price"] - seen.mean()) / seen.std(correction=0)
    by_hand = credo.fit(model(), (inputs, {**y, "price": z.float()}), method)
    found, known = posterior.predict(X), by_hand.predict(inputs)
    mean = known["price"].mean.double() * seen.std(correction=0) + seen.mean()
    torch.testing.assert_close(found["price"].mean.double(), mean, rtol=1e-4, atol=1.0)  # float32, 40 steps apart
    torch.testing.assert_close(found["kind"].probs, known["kind"].probs, rtol=1e-3, atol=1e-4)  # the same


def test_heads_with_positions() -> None:
    class Maps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.depth, self.parts, self.scene = (
                nn.Conv2d(2, 4, 3, padding=1),
                nn.Conv2d(4, 1, 1),
                nn.Conv2d(4, 3, 1),
                nn.Linear(4, 1),
            )

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            h = torch.relu(self.conv(x))
            return {"depth": self.depth(h), "parts": self.parts(h), "scene": self.scene(h.mean((2, 3)))}

    x = RNG.child("images").normal(10, 2, 4, 5)
    depth, parts, scene = x[:, :1] * 1e3 + 5e3, (x[:, 0] > 0).long(), (x.mean((1, 2, 3)) > 0).long()
    kept = RNG.child("kept").normal(10, 4, 5) > 0
    y = {"depth": depth, "parts": parts, "scene": scene}
    method = credo.MAP(epochs=3)
    for given in (None, Joint(depth=LearnedGaussian(), parts=Categorical(), scene=Bernoulli())):
        with_mask = credo.fit(credo.Model(Maps(), given), (x, y), method, mask={"parts": kept, "depth": kept})
        prediction = with_mask.predict(x)
        assert prediction["depth"].interval(0.9)[0].shape == (10, 1, 4, 5)
        assert prediction["parts"].label.shape == (10, 4, 5)
        assert prediction["scene"].probs.shape == (10, 1)
        written = {**y, "depth": torch.where(kept[:, None], depth, torch.nan), "parts": parts.masked_fill(~kept, -100)}
        other = credo.fit(credo.Model(Maps(), given), (x, written), method)
        assert torch.equal(other.predict(x).log_prob(written), prediction.log_prob(written))
    with pytest.raises(ValueError, match="the heads have outputs depth"):
        with_mask.predict(x.mT)


def test_a_mask_of_a_head_of_rows() -> None:
    fits = [
        credo.fit(model(), (X, Y), credo.MAP(epochs=3), mask=KEPT),
        credo.fit(model(), (X, {n: t.float() if n == "price" else t for n, t in MISSING.items()}), credo.MAP(epochs=3)),
    ]
    for a, b in zip(*(flatten(f.members(1).params).values() for f in fits), strict=True):
        assert torch.equal(a, b)


def test_loaders_weights_members_and_plans() -> None:
    rows = [{"x": X[i], "price": PRICE[i], "kind": KIND[i]} for i in range(N)]
    loader: Any = DataLoader(rows, batch_size=N)  # type: ignore[arg-type]
    targets = ["price", "kind"]
    whole = credo.fit(model(), (X, Y), credo.MAP(epochs=3))
    loaded = credo.fit(model(), loader, credo.MAP(epochs=3), inputs="x", targets=targets)
    assert torch.equal(whole.predict(X)["price"].mean, loaded.predict(X)["price"].mean)
    twice = credo.fit(model(), (X, Y), credo.MAP(epochs=3), weights=torch.full((N,), 2.0))
    repeated = {name: torch.cat([t, t]) for name, t in Y.items()}
    again = credo.fit(model(), (torch.cat([X, X]), repeated), credo.MAP(epochs=3))
    torch.testing.assert_close(  # float32 sums of 24 and of 48 rows
        twice.predict(X)["price"].mean, again.predict(X)["price"].mean, rtol=1e-4, atol=1e-5
    )
    own = credo.PerMember(torch.stack([X, X.flip(0)]), {n: torch.stack([t, t.flip(0)]) for n, t in Y.items()})
    method = credo.DeepEnsemble(members=2, epochs=3, batch_size=8)
    found = [credo.fit(model(), own, method, plan=plan).predict(X) for plan in Plan]
    torch.testing.assert_close(  # float32, kernels in another order
        found[0]["kind"].probs, found[1]["kind"].probs, rtol=1e-4, atol=1e-5
    )


def test_a_run_with_heads_is_resumed_and_begun_with(tmp_path: Path) -> None:
    method = credo.MAP(epochs=4, batch_size=8)
    whole = credo.fit(Two(), (X, Y), method, checkpoint=tmp_path / "whole")
    with pytest.warns(credo.CredoWarning, match="stopped after"):
        credo.fit(Two(), (X, Y), method, checkpoint=tmp_path / "part", seconds=1e-9)
    resumed = credo.fit(Two(), (X, Y), method, checkpoint=tmp_path / "part", resume=True)
    assert torch.equal(whole.predict(X)["price"].mean, resumed.predict(X)["price"].mean)
    begun = credo.fit(whole.model, (X, Y), credo.SWAG(epochs=1, every=1, draws=3, rank=2), start=whole)
    assert begun.model.likelihood == whole.model.likelihood
    whole.save(tmp_path / "saved")
    for loaded in (credo.load(tmp_path / "saved", Two()), credo.load(tmp_path / "saved", model=credo.Model(Two()))):
        assert torch.equal(loaded.predict(X).log_prob(Y), whole.predict(X).log_prob(Y))
    with pytest.raises(credo.StorageError, match="was found under"):
        credo.load(
            tmp_path / "saved", model=credo.Model(Two(), Joint(price=HeteroscedasticGaussian(), kind=Categorical()))
        )


def test_metrics_and_pieces_are_of_one_head() -> None:
    posterior = credo.fit(model(), (X, Y), credo.DeepEnsemble(members=2, epochs=3))
    prediction = posterior.predict(X)
    assert metrics.rmse(prediction["price"], PRICE) > 0
    assert 0 <= metrics.accuracy(prediction["kind"], KIND) <= 1
    pieces = list(posterior.predict_batches(X, rows=7))
    torch.testing.assert_close(torch.cat([p["price"].mean for p in pieces]), prediction["price"].mean)
    assert prediction.expected_entropy.shape == (N,)
    for call in (
        lambda: prediction.mean,
        lambda: prediction.variance,
        lambda: prediction.entropy,
        lambda: prediction.mutual_information,
        lambda: prediction.log_prob_each(Y),
        lambda: metrics.rmse(prediction, PRICE),
        lambda: metrics.log_likelihood(prediction, Y),
    ):
        with pytest.raises(ValueError, match=r"several heads, 'price', 'kind'.*prediction\['price'\]"):
            call()
    with pytest.raises(AttributeError, match=r"prediction\['price'\]\.probs"):
        _ = prediction.probs
    with pytest.raises(KeyError, match="no head 'cost'"):
        _ = prediction["cost"]


def test_the_curvature_is_one_block_for_each_head() -> None:
    target, variables, y = settled(Two().double(), joint(), {"price": PRICE.double(), "kind": KIND}, X.double())
    likelihood, outputs = target.model.likelihood, target.model.network.evaluate(variables, X.double())
    params = {"price.log_scale": torch.zeros(1, 1, dtype=torch.float64)}
    fisher = likelihood.fisher(outputs, params)
    torch.testing.assert_close(fisher, likelihood.hessian(outputs, y, params), rtol=1e-10, atol=1e-12)


BAD: dict[str, tuple[Any, Any, str]] = {
    "no names in y": (None, PRICE, "y has no names, and there are several heads"),
    "a missing head": (None, {"price": PRICE}, "y has no targets for the head 'kind'"),
    "a head too many": (None, {**Y, "age": PRICE}, "there is no head for the part of y 'age'"),
    "lengths": (None, {"price": PRICE, "kind": KIND[:9]}, "y\\['kind'\\] has 9 rows and y\\['price'\\] has 24"),
    "another class": (None, {"price": PRICE, "kind": KIND + 7}, "of the head 'kind': y holds class numbers from 7"),
    "infinite": (None, {"price": PRICE / 0, "kind": KIND}, "y\\['price'\\] has NaN or infinite"),
    "half a row": (
        Joint(price=Gaussian(), kind=Categorical()),
        {"price": torch.tensor([[0.0, torch.nan]]).expand(N, 2), "kind": KIND},
        "an example has all targets of a head or none",
    ),
    "nothing observed": (
        None,
        {"price": torch.full((N,), torch.nan), "kind": torch.full((N,), -100)},
        "y is masked at all positions of all examples",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_targets_that_do_not_fit_get_a_sentence(case: str) -> None:
    given, y, sentence = BAD[case]
    with pytest.raises(ValueError, match=sentence):
        credo.fit(credo.Model(Two(), given or joint()), (X, y), credo.MAP(epochs=1))


@pytest.mark.parametrize(
    ("net", "options", "sentence"),
    [
        (Two(lambda p, k: torch.cat([p, k], 1)), {}, "returns one tensor of shape .*let forward"),
        (Two(lambda p, k: {"price": p, "sort": k}), {}, "none is called 'kind'.*outputs={'price': 0, 'kind': 1}"),
        (Two(lambda p, k: {"price": p[:1], "kind": k}), {}, "must have the same first axis, the batch"),
        (Two(lambda p, k: {"price": p[:, 0], "kind": k}), {}, "of the head 'price'.*unsqueeze"),
        (Two(), {"outputs": {"price": "price"}}, "outputs names 'price', and the heads are 'price', 'kind'"),
        (Two(), {"outputs": "price"}, "outputs must say where each head is"),
        (Two(), {"outputs": lambda out: out["price"]}, "must give a dict of tensors with the heads"),
    ],
)
def test_networks_that_do_not_fit_get_a_sentence(net: nn.Module, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        credo.fit(credo.Model(net, joint(), **options), (X, Y), credo.MAP(epochs=1))


def test_masks_and_weights_of_heads_that_do_not_fit() -> None:
    for options, sentence in (
        ({"mask": KEPT["kind"]}, "give a dict, such as mask={'price': ...}"),
        ({"mask": {"cost": KEPT["kind"]}}, "there is a mask for 'cost'"),
        ({"mask": {"kind": KEPT["kind"][:5]}}, "the mask has shape"),
        ({"weights": {"sort": torch.ones(N)}}, "there are weights for 'sort', and y has 'price', 'kind'"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence):
            credo.fit(model(), (X, Y), credo.MAP(epochs=1), **options)
    for wrong in ({}, {"a.b": Gaussian()}, {"a": Joint(b=Gaussian())}, {"a": 1.0}, {"heads": ()}):
        with pytest.raises((ValueError, TypeError), match=r"head|name|likelihood"):
            Joint(**wrong)  # type: ignore[arg-type]
