"""A weight of two is a row that comes twice, in every method; a weight of zero is a row that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import credo
from credo import generative, likelihoods, priors
from credo.core.rng import Stream
from credo.core.trees import flatten
from credo.loop.batches import TensorSource
from credo.loop.loaders import LoaderSource
from credo.loop.roles import Examples, Roles
from credo.methods import Method
from methods_table import methods

CPU, DOUBLE = torch.device("cpu"), torch.float64
N = 9
X, Y = Stream(5).normal(N, 2, dtype=DOUBLE), Stream(6).normal(N, 1, dtype=DOUBLE)
WEIGHTS = torch.tensor([1, 2, 1, 0, 3, 1, 1, 2, 1], dtype=DOUBLE)
TWICE = torch.repeat_interleave(torch.arange(N), WEIGHTS.long())
"""The rows as often as they weigh."""


class Layers(nn.Module):
    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(2, 4), nn.Dropout(rate), nn.Linear(4, 1)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.drop(torch.tanh(self.first(x))))


def model() -> credo.Model:
    with Stream(9).borrowed_global():
        return credo.Model(Layers(), likelihoods.Gaussian(0.5))


FAINT = 1e-9
"""Noise that is drawn anew for every row is made so small that it does not tell a row twice from one of weight two."""
QUIET: dict[str, dict[str, Any]] = {
    "MCDropout": {"rate": 0.0},
    "ConcreteDropout": {"initial_rate": 1e-30},
    "BayesByBackprop": {"initial_scale": FAINT},
    "VariationalDropout": {"initial_alpha": FAINT**2},
    "SparseVariationalDropout": {"initial_scale": FAINT},
}


def quiet(method: Method) -> Method:
    """The method in full batches, with next to no noise by row."""
    if isinstance(method, credo.Ensemble):
        return replace(method, method=quiet(method.method))
    changes = dict(QUIET.get(type(method).__name__, {}))
    if getattr(method, "after", None) is not None:
        changes["after"] = quiet(method.after)
    if "batch_size" in {field.name for field in fields(method)}:
        changes["batch_size"] = None
    return replace(method, **changes)


ALL = {name: quiet(method) for name, method in methods(12, 6).items()}
every_method = pytest.mark.parametrize("method", ALL.values(), ids=ALL.keys())
quietly = pytest.mark.filterwarnings("ignore::credo.CredoWarning")


def state(posterior: credo.Posterior) -> Tensor:
    return torch.cat([t.double().flatten() for t in posterior.tensors().values()])


@quietly
@every_method
def test_a_weight_of_two_is_a_row_that_comes_twice(method: Method) -> None:
    repeated = credo.fit(model(), (X[TWICE], Y[TWICE]), method, seed=3)
    weighted = credo.fit(model(), (X, Y), method, seed=3, weights=WEIGHTS)
    assert weighted.record.size == repeated.record.size == len(TWICE)
    # sums in another order; by row there is noise of 1e-9, which an optimizer that scales its steps may magnify
    torch.testing.assert_close(state(weighted), state(repeated), rtol=1e-6, atol=1e-6)
    plain = credo.fit(model(), (X, Y), method, seed=3)
    assert not torch.allclose(state(plain), state(repeated), rtol=1e-4, atol=1e-4), "the twin without weights"


@quietly
@pytest.mark.parametrize("plan", list(credo.Plan))
@every_method
def test_a_weight_of_zero_is_a_row_that_is_not_there(method: Method, plan: credo.Plan) -> None:
    rest = [row for row in range(N) if row != 3]
    weights = WEIGHTS.clone()
    one = credo.fit(model(), (X, Y), method, weights=weights, plan=plan)
    other = credo.fit(model(), (X[rest], Y[rest]), method, weights=weights[rest], plan=plan)
    assert torch.equal(state(one), state(other))


@quietly
@pytest.mark.parametrize("name", ["map", "deep ensemble", "local reparameterization", "sgld", "hmc"])
def test_the_broken_twin_that_divides_by_the_weights_of_the_batch_is_told_apart(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A weighted mean times the number of rows, as many libraries have it: the sum of the weights is lost."""
    repeated = credo.fit(model(), (X[TWICE], Y[TWICE]), ALL[name], seed=3)

    def data_term(self: credo.Target, each: Tensor, batch: credo.Batch) -> Tensor:
        return (each * batch.weight).sum(1) / batch.weight.sum(-1) * batch.examples

    monkeypatch.setattr(credo.Target, "data_term", data_term)
    weighted = credo.fit(model(), (X, Y), ALL[name], seed=3, weights=WEIGHTS)
    assert not torch.allclose(state(weighted), state(repeated), rtol=1e-4, atol=1e-4)


@quietly
@pytest.mark.parametrize("name", ["map", "bayes by backprop", "hmc", "metropolis"])
def test_weights_per_member_are_rows_of_each_member(name: str) -> None:
    method, members = ALL[name], getattr(ALL[name], "chains", 2)
    if members == 2:
        method = credo.Ensemble(method, members=2)
    each = torch.stack([WEIGHTS.roll(m) for m in range(members)])
    rows = torch.stack([torch.repeat_interleave(torch.arange(N), w.long()) for w in each])
    repeated = credo.fit(model(), credo.PerMember(X[rows], Y[rows]), method, seed=3)
    data = credo.PerMember(X.expand(members, N, 2), Y.expand(members, N, 1), each)
    # sums in another order
    torch.testing.assert_close(state(credo.fit(model(), data, method, seed=3)), state(repeated), rtol=1e-8, atol=1e-10)


WEIGHTED = Roles(weights=2)
NUMBERED = torch.arange(N, dtype=DOUBLE).unsqueeze(1)
TRIPLES = TensorDataset(torch.ones(N, 1, dtype=DOUBLE), NUMBERED, WEIGHTS)


class Stretch(IterableDataset):
    """Rows one by one, without places."""

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        return iter([TRIPLES[i] for i in range(N)])

    def __len__(self) -> int:
        return N


CUTS: dict[str, Any] = {
    "a short last batch": DataLoader(TRIPLES, batch_size=4),
    "shuffled": DataLoader(TRIPLES, batch_size=4, shuffle=True),
    "batches of their own sizes": DataLoader(TRIPLES, batch_sampler=[[0, 1, 2, 3, 4], [5], [6, 7], [8]]),
    "a stream": DataLoader(Stretch(), batch_size=4),
    "one row at a time, one of which weighs nothing": DataLoader(TRIPLES, batch_size=1),
    "tensors": 2,
    "tensors, several members": (2, 3),
}


def source_of(cut: Any) -> LoaderSource | TensorSource:
    if isinstance(cut, DataLoader):
        return LoaderSource(cut, WEIGHTED, order=Stream(0), device=CPU, dtype=DOUBLE)
    batch_size, members = cut if isinstance(cut, tuple) else (cut, 1)
    return TensorSource(Examples(*TRIPLES.tensors), batch_size=batch_size, members=members, order=Stream(0))


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
def test_an_epoch_of_batches_adds_up_to_all_data(cut: Any) -> None:
    """The average data term over an epoch, with weights that do not move, is that of all rows at once."""
    target = credo.Target(credo.Model(nn.Linear(1, 1), likelihoods.Gaussian(1.0)), float(WEIGHTS.sum()))
    each = torch.linspace(-3.0, -1.0, N, dtype=DOUBLE)
    made = source_of(cut)
    assert made.size == float(WEIGHTS.sum())
    batches = made.steps(0)
    for _ in range(3):
        parts = [next(batches) for _ in range(made.batches)]
        found = [target.data_term(each[batch.y.long().reshape(-1, batch.examples)], batch) for batch in parts]
        mean = torch.stack([part.expand(3) for part in found]).mean(0)
        torch.testing.assert_close(mean, (each * WEIGHTS).sum().expand(3), rtol=1e-12, atol=0)
        wrong = [
            target.size
            / batch.weight.sum(-1)
            * (each[batch.y.long().reshape(-1, batch.examples)] * batch.weight).sum(1)
            for batch in parts
            if bool(batch.weight.any())
        ]
        twin = torch.stack([part.expand(3) for part in wrong]).mean(0)
        assert not torch.allclose(twin, mean, rtol=1e-3), "the broken twin, factors by valid weight, is told apart"


def test_weights_in_a_loader_that_drops_its_last_rows() -> None:
    fixed = DataLoader(TRIPLES, batch_size=4, drop_last=True)
    made = LoaderSource(fixed, WEIGHTED, order=Stream(0), device=CPU, dtype=DOUBLE)
    assert made.size == float(WEIGHTS[:8].sum())
    assert any("leaves out the last 1 of 9 examples" in note for note in made.notes)


class Heavy(nn.Module):
    """One weight, the mean of y."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(1, 1, dtype=DOUBLE))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.mean


@pytest.mark.parametrize("batch_size", [10, None])
@pytest.mark.parametrize("door", ["tensors", "loader", "shuffled loader"])
def test_map_finds_the_weighted_mean_of_21_rows_in_batches(door: str, batch_size: int | None) -> None:
    """20 rows of 0 that weigh one, and one of 21 that weighs two: the mean is 42 / 22, and of all alike it were 1."""
    x, y = torch.ones(21, 1, dtype=DOUBLE), torch.zeros(21, 1, dtype=DOUBLE)
    y[-1], weights = 21.0, torch.ones(21, dtype=DOUBLE)
    weights[-1] = 2.0
    flat = credo.Model(Heavy(), likelihoods.Gaussian(1.0), priors.Normal(scale=1000.0))
    falling = credo.MAP(
        epochs=150, batch_size=batch_size, learning_rate=0.5, optimizer=credo.SGD(momentum=0.0), schedule=credo.Cosine()
    )
    loader = DataLoader(TensorDataset(x, y, weights), batch_size=batch_size or 21, shuffle=door == "shuffled loader")
    data, given = ((x, y), weights) if door == "tensors" else (loader, 2)
    found = credo.fit(flat, data, falling, weights=given).predict(x[:1]).mean
    # what the order of the batches leaves in the last steps
    assert float(found) == pytest.approx(42 / 22, abs=0.05)


def test_rows_that_weigh_nothing_may_be_impossible() -> None:
    target = credo.Target(credo.Model(nn.Linear(1, 1), likelihoods.Gaussian(1.0)), 2.0)
    each = torch.tensor([[-1.0, -torch.inf, -2.0]], requires_grad=True)
    batch = credo.Batch(X[:3], Y[:3], weight=torch.tensor([1.0, 0.0, 1.0]), factor=1.0)
    value = target.data_term(each, batch)
    assert value.item() == -3.0
    assert torch.equal(torch.autograd.grad(value.sum(), each)[0], torch.tensor([[1.0, 0.0, 1.0]]))
    nothing = replace(batch, weight=torch.zeros(3))
    assert target.data_term(each, nothing).item() == 0.0


@quietly
@pytest.mark.parametrize("name", ["map", "mc dropout", "local reparameterization", "sgld", "black-box vi"])
def test_batches_that_weigh_nothing_are_steps_of_the_prior_alone(name: str) -> None:
    weights = torch.zeros(N, dtype=DOUBLE)
    weights[:3] = 1.0
    loader = DataLoader(TensorDataset(X, Y, weights), batch_size=3)
    method = replace(methods(3, 4)[name], batch_size=3)
    posterior = credo.fit(model(), loader, method, weights=2, validation=loader)
    assert posterior.record.finished
    assert all(torch.isfinite(torch.tensor(row["log_likelihood"])) for row in posterior.history)
    assert bool(state(posterior).isfinite().all())


def test_validation_is_an_average_by_weight() -> None:
    still = credo.MAP(epochs=1, learning_rate=1e-30)
    heavy = TensorDataset(X, Y, WEIGHTS)
    scores = [
        credo.fit(model(), (X, Y), still, validation=held).history[-1]["validation_log_likelihood"]
        for held in ((X[TWICE], Y[TWICE]), (X, Y, WEIGHTS), (X, Y))
    ]
    assert scores[1] == pytest.approx(scores[0], rel=1e-12)
    assert abs(scores[2] - scores[0]) > 1e-3, "the twin without weights"
    parts = {"a": X, "y": Y, "w": WEIGHTS}
    for data, given, held in (
        ((X, Y), WEIGHTS, heavy),
        ((X, Y), WEIGHTS, DataLoader(heavy, batch_size=4)),
        (DataLoader(heavy, batch_size=4), 2, DataLoader(heavy, batch_size=5)),
        (heavy, 2, (X, Y, WEIGHTS)),
        (heavy, 2, (X[TWICE], Y[TWICE])),
        (heavy, 2, TensorDataset(X[TWICE], Y[TWICE])),
    ):
        run = credo.fit(model(), data, still, weights=given, validation=held)
        assert run.history[-1]["validation_log_likelihood"] == pytest.approx(scores[0], rel=1e-12)
    for held in (parts, (X, Y, WEIGHTS), (X[TWICE], Y[TWICE])):
        named = credo.fit(model(), parts, still, inputs="a", targets="y", weights="w", validation=held)
        assert named.history[-1]["validation_log_likelihood"] == pytest.approx(scores[0], rel=1e-12)


def together(items: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(torch.stack(values) for values in zip(*items, strict=True))


@pytest.mark.parametrize(
    "held",
    [
        TensorDataset(X, Y, WEIGHTS),
        DataLoader(TensorDataset(X, Y, WEIGHTS)),
        DataLoader(TensorDataset(X, Y, WEIGHTS), collate_fn=together),
    ],
    ids=["data set", "loader", "loader of tuples"],
)
def test_the_third_part_of_a_data_set_is_weights_only_where_that_was_said(held: Any) -> None:
    with pytest.raises(ValueError, match="got 3 of them"):
        credo.fit(model(), (X, Y), credo.MAP(epochs=1), validation=held)


def test_validation_accuracy_is_weighted() -> None:
    labels = (Y[:, 0] > 0).long()
    net = Stream(4).child("net")
    with net.borrowed_global():
        classes = credo.Model(nn.Linear(2, 2).double(), likelihoods.Categorical())
    still = credo.MAP(epochs=1, learning_rate=1e-30)
    found = [
        credo.fit(classes, (X, labels), still, validation=held).history[-1]["validation_accuracy"]
        for held in ((X[TWICE], labels[TWICE]), (X, labels, WEIGHTS))
    ]
    assert found[1] == pytest.approx(found[0], rel=1e-12)


def test_weights_that_do_not_count_examples_get_a_note() -> None:
    method = credo.MAP(epochs=1)
    for factor, said in ((1.0, False), (0.6, False), (0.1, True), (5.0, True)):
        posterior = credo.fit(model(), (X, Y), method, weights=torch.full((N,), factor))
        assert any("the weights add up to" in note for note in posterior.notes) is said
    note = next(note for note in posterior.notes if "the weights add up to" in note)
    assert "45, and there are 9 examples" in note
    assert "multiply the weights by 0.2" in note


BAD: dict[str, tuple[Any, str]] = {
    "negative": (-WEIGHTS, "weights has negative values"),
    "NaN": (WEIGHTS / 0.0, "weights has NaN or infinite values"),
    "too few": (WEIGHTS[:5], r"weights has shape \(5,\), and there are 9 examples"),
    "one number": (2.0, r"weights has shape \(\), and there are 9 examples"),
    "one for each position": (torch.ones(N, 4), r"weights has shape .* none for each position .* marked in y"),
    "all zero": (torch.zeros(N), "weights are all zero"),
    "words": (["a"] * N, "weights cannot be read as numbers"),
    "complex": (WEIGHTS.to(torch.complex64), "weights has complex numbers"),
}


@pytest.mark.parametrize(("weights", "message"), BAD.values(), ids=BAD.keys())
def test_bad_weights_get_a_sentence_at_every_door(weights: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        credo.fit(model(), (X, Y), credo.MAP(epochs=1), weights=weights)
    with pytest.raises((ValueError, TypeError), match=f"^validation {message}"):
        credo.fit(model(), (X, Y), credo.MAP(epochs=1), validation=(X, Y, weights))
    if isinstance(weights, Tensor) and len(weights) == N:
        loader = DataLoader(TensorDataset(X, Y, weights), batch_size=N)
        with pytest.raises(ValueError, match=message.removeprefix("weights ").replace("9 examples", ".*")):
            credo.fit(model(), loader, credo.MAP(epochs=1), weights=2)
        with pytest.raises(ValueError, match="zero" if message.endswith("zero") else message):
            credo.fit(model(), (X, Y), credo.MAP(epochs=1), weights=WEIGHTS, validation=loader)


def test_a_weight_that_the_precision_of_the_model_cannot_hold_gets_a_sentence() -> None:
    data = (X.float(), Y.float())
    with pytest.raises(ValueError, match="weights, as float32, has NaN or infinite values"):
        credo.fit(credo.nets.MLP(2, 1), data, credo.MAP(epochs=1), weights=WEIGHTS * 1e300)
    with pytest.raises(ValueError, match="weights, as float32, are all zero"):
        credo.fit(credo.nets.MLP(2, 1), data, credo.MAP(epochs=1), weights=WEIGHTS * 1e-300)


def test_a_member_whose_examples_all_weigh_nothing_is_refused() -> None:
    weights = torch.stack([WEIGHTS, torch.zeros(N, dtype=DOUBLE)])
    data = credo.PerMember(X.expand(2, N, 2), Y.expand(2, N, 1), weights)
    with pytest.raises(ValueError, match="weights of a member are all zero"):
        credo.fit(model(), data, credo.DeepEnsemble(members=2, epochs=1))


def test_a_batch_with_weights_needs_its_factor() -> None:
    target = credo.Target(model(), float(WEIGHTS.sum()))
    batch = credo.Batch(X, Y, weight=WEIGHTS)
    with pytest.raises(ValueError, match=r"give Batch\(\.\.\., factor=1\.0\)"):
        target.data_term(torch.zeros(1, N), batch)


ROLES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "one part too few": ((X, Y), {"weights": 1}, r"has 2 parts, and weights=1 says which of them weighs"),
    "a name in a pair": ((X, Y), {"weights": "w"}, "has 2 parts, and weights='w'"),
    "the targets themselves": ((X, Y), {"weights": 1, "targets": -1}, "targets in part 1, which cannot be the weights"),
    "the targets by name": ({"x": X, "y": Y}, {"weights": "y", "targets": "y"}, "targets in 'y', which cannot be"),
    "a place of data per member": (
        credo.PerMember(X[None], Y[None]),
        {"weights": 2},
        r"give their weights as PerMember\(x, y, weights=\.\.\.\)",
    ),
    "given twice": (credo.PerMember(X[None], Y[None], WEIGHTS[None]), {"weights": WEIGHTS[None]}, "given twice"),
    "validation of other columns": ((X, Y), {"validation": (X[:, :1], Y)}, "validation: the network cannot be called"),
    "validation without rows": ((X, Y), {"validation": (X[:0], Y[:0])}, "validation data are empty"),
    "validation that is no data": ((X, Y), {"validation": 3}, "validation must be a pair"),
}


@pytest.mark.parametrize(("data", "more", "message"), ROLES.values(), ids=ROLES.keys())
def test_roles_that_do_not_fit_the_data_get_a_sentence(data: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        credo.fit(model(), data, credo.MAP(epochs=1), **more)


def test_a_killed_run_with_weights_goes_on_to_the_same_bits(tmp_path: Any) -> None:
    method = credo.MAP(epochs=6, batch_size=4)
    whole = credo.fit(model(), (X, Y), method, weights=WEIGHTS)

    def stop(report: Any) -> None:
        raise KeyboardInterrupt

    checkpoint = credo.Checkpoint(tmp_path / "run", seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        credo.fit(model(), (X, Y), method, weights=WEIGHTS, checkpoint=checkpoint, progress=stop)
    with pytest.raises(ValueError, match="data"):
        credo.fit(model(), (X, Y), method, weights=WEIGHTS + 1, checkpoint=checkpoint, resume=True)
    with pytest.raises(ValueError, match="data"):
        credo.fit(model(), (X, Y), method, checkpoint=checkpoint, resume=True)
    resumed = credo.fit(model(), (X, Y), method, weights=WEIGHTS, checkpoint=checkpoint, resume=True)
    assert torch.equal(state(whole), state(resumed))
    assert flatten(resumed.members().params).keys() == flatten(whole.members().params).keys()


@quietly
def test_trust_in_a_posterior_of_weighted_examples_is_judged_by_them() -> None:
    method = ALL["bayes by backprop"]
    weighted = credo.fit(model(), (X, Y), method, weights=WEIGHTS)
    repeated = credo.fit(model(), (X[TWICE], Y[TWICE]), method)
    trust = credo.diagnostics.trust
    mine, theirs = trust(weighted, (X, Y), draws=50, weights=WEIGHTS), trust(repeated, (X[TWICE], Y[TWICE]), draws=50)
    assert mine.elbo[0][0] == pytest.approx(theirs.elbo[0][0], rel=1e-5)  # what twelve steps make of noise of 1e-9
    with pytest.raises(ValueError, match=r"count as 12 examples, and these count as 9: .* weights"):
        trust(weighted, (X, Y), draws=50)


def test_a_posterior_whose_weights_add_up_to_a_fraction_is_saved_and_loaded(tmp_path: Any) -> None:
    posterior = credo.fit(model(), (X, Y), credo.MAP(epochs=2), weights=WEIGHTS / 8)
    assert posterior.record.size == 1.5
    posterior.save(tmp_path / "run")
    loaded = credo.load(tmp_path / "run", net=Layers())
    assert loaded.record.size == 1.5
    assert torch.equal(loaded.predict(X).mean, posterior.predict(X).mean)


def test_an_autoencoder_of_weighted_examples() -> None:
    """Rows that weigh nothing are not there; where one kind of row outweighs all others, samples are of that kind."""
    x = torch.cat([torch.zeros(20, 4), torch.ones(20, 4)])
    vae, method = generative.VAE(latent=1, hidden=(8,)), generative.AutoEncodingBayes(epochs=60, learning_rate=0.02)
    weights = torch.cat([torch.full((20,), 1.9), torch.full((20,), 0.1)])
    rest = generative.fit(vae, x[:20], method, weights=weights[:20])
    none = generative.fit(vae, x, method, weights=weights * (torch.arange(40) < 20))
    assert torch.equal(state(rest.posterior), state(none.posterior))
    heavy = generative.fit(vae, x, method, weights=weights)
    assert float(heavy.sample(400).mean()) == pytest.approx(0.05, abs=0.05)  # and a half without weights
