"""Every example weighs the same, however the batches are cut, in every family of methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, Sampler, SubsetRandomSampler, TensorDataset

import credo
from credo import likelihoods, priors
from credo.core.rng import Stream
from credo.loop.loaders import LoaderSource
from credo.methods import Method

N = 21
ONES = torch.ones(N, 1, dtype=torch.float64)
Y = torch.zeros(N, 1, dtype=torch.float64)
Y[-1] = 21.0
"""The last row alone moves the mean, which is 1: who weighs it seven times gets 7."""
MODEL = credo.Model(
    nn.Linear(1, 1, bias=False, dtype=torch.float64), likelihoods.Gaussian(1.0), priors.Normal(scale=1000.0)
)
CPU = torch.device("cpu")

# plain gradient descent with a falling step: the last steps average over the order of the batches
STEPS = {"epochs": 300, "learning_rate": 0.5, "schedule": credo.Cosine()}
SGD = {**STEPS, "optimizer": credo.SGD(momentum=0.0)}
FAMILIES: dict[str, Method] = {
    "point": credo.MAP(**SGD),
    "ensemble": credo.DeepEnsemble(members=3, **SGD),
    "variational": credo.BayesByBackprop(**SGD, initial_scale=1e-3),
    "variational, local": credo.BayesByBackprop(**SGD, initial_scale=1e-3, estimator="local"),
    "black box": credo.BlackBoxVI(**{**SGD, "learning_rate": 0.1}, initial_scale=0.05, samples=100),
    "variational dropout": credo.SparseVariationalDropout(**SGD, initial_scale=1e-3, noise_learning_rate=1e-6),
    "stochastic": credo.SGLD(**STEPS, draws=200, warmup=200),
}
every_family = pytest.mark.parametrize("method", FAMILIES.values(), ids=FAMILIES.keys())


def learned_mean(method: Method, data: object) -> float:
    """The one weight, which is the mean of y under a flat prior."""
    posterior = credo.fit(MODEL, data, method, seed=1)
    return float(posterior.predict(torch.ones(1, 1, dtype=torch.float64), draws=400).mean)


def rows(y: Tensor) -> TensorDataset:
    return TensorDataset(torch.ones(len(y), 1, dtype=torch.float64), y)


@every_family
def test_a_short_last_batch_in_a_fixed_order_weighs_no_more(method: Method) -> None:
    loader = DataLoader(rows(Y), batch_size=10)
    # the noise of the draws (1 / sqrt(21) each, 400 of them) and of the last steps; 7 is far away
    assert learned_mean(method, loader) == pytest.approx(1.0, abs=0.15)


def test_the_broken_twin_that_takes_n_over_b_for_its_factor_learns_seven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credo.Target, "factor", lambda self, batch: self.size / batch.examples)
    for name in ("point", "variational", "stochastic", "variational dropout", "ensemble"):
        assert learned_mean(FAMILIES[name], DataLoader(rows(Y), batch_size=10)) > 6.0, name


class Balanced(Sampler[list[int]]):
    """Batches of rows that it chooses itself: the last row in every epoch twice, the first ten never."""

    def __iter__(self) -> Iterator[list[int]]:
        yield [10, 11, 12, 13, 14, 15]
        yield [16, 17, 18]
        yield [19, 20, 20]

    def __len__(self) -> int:
        return 3


def test_n_is_what_a_batch_sampler_gives_in_an_epoch() -> None:
    """12 rows with the sum 42 and the prior N(0, 1): the mode is 42 / 13."""
    y = Y.clone()
    model = credo.Model(MODEL.network, MODEL.likelihood, priors.Normal(scale=1.0))
    loader = DataLoader(rows(y), batch_sampler=Balanced())
    posterior = credo.fit(model, loader, FAMILIES["point"])
    assert posterior.record.size == 12
    assert float(posterior.predict(ONES[:1]).mean) == pytest.approx(
        42 / 13, abs=0.04
    )  # what the order of the batches leaves
    of_all = 42 * 21 / 12 / (21 + 1)
    assert abs(of_all - 42 / 13) > 0.1, "the broken twin, N of the data set, is told apart"


def source(loader: DataLoader) -> LoaderSource:
    return LoaderSource(loader, order=Stream(0), device=CPU, dtype=torch.float64)


def weight_of_rows(made: LoaderSource, epochs: int) -> Tensor:
    """How often each row counts in an average epoch, by its number, which is its y."""
    counts = torch.zeros(N, dtype=torch.float64)
    batches = made.steps(0)
    for _ in range(epochs * made.batches):
        batch = next(batches)
        factor = batch.factor / made.batches
        counts.index_add_(0, batch.y.long().flatten(), torch.full((batch.examples,), factor, dtype=torch.float64))
    return counts / epochs


NUMBERED = TensorDataset(ONES, torch.arange(N, dtype=torch.float64).unsqueeze(1))


def test_a_loader_that_drops_the_last_rows_of_a_fixed_order_says_that_they_are_not_learned_from() -> None:
    made = source(DataLoader(NUMBERED, batch_size=10, drop_last=True))
    assert made.size == 20
    assert torch.equal(weight_of_rows(made, 2), torch.tensor([1.0] * 20 + [0.0], dtype=torch.float64))
    assert "leaves out the last 1 of 21 examples in every epoch" in made.notes[0]


def test_a_loader_that_drops_other_rows_in_every_epoch_stands_for_all_of_them() -> None:
    made = source(DataLoader(NUMBERED, batch_size=10, drop_last=True, shuffle=True))
    assert made.size == N
    weights = weight_of_rows(made, 2000)
    assert float(weights.sum()) == pytest.approx(N)
    # each row is left out with probability 1 / 21: the standard error of a weight is 0.005, and of 21 none is beyond 5
    assert float((weights - 1.0).abs().max()) < 0.025
    assert not made.notes


@pytest.mark.parametrize(
    ("sampler", "size"),
    [
        (RandomSampler(NUMBERED, replacement=True, num_samples=42), N),
        (RandomSampler(NUMBERED, num_samples=10), N),
        (SubsetRandomSampler(range(12)), 12),
    ],
    ids=["with replacement", "a part of the rows", "a subset"],
)
def test_samplers(sampler: Sampler[int], size: int) -> None:
    made = source(DataLoader(NUMBERED, batch_size=5, sampler=sampler))
    assert made.size == size
    assert float(weight_of_rows(made, 20).sum()) == pytest.approx(size)


class Liar(IterableDataset):
    """Says that it has 20 rows, and gives 12."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter([(ONES[0], Y[0])] * 12)

    def __len__(self) -> int:
        return 20


def doubled(items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    x, y = (torch.stack(values) for values in zip(*items, strict=True))
    return torch.cat([x, x]), torch.cat([y, y])


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(Liar(), batch_size=5),
        DataLoader(NUMBERED, batch_size=5, collate_fn=doubled),
    ],
    ids=["fewer batches", "more rows"],
)
@pytest.mark.filterwarnings("ignore:Length of IterableDataset")
def test_a_loader_that_gives_other_than_it_says_is_refused_in_the_first_epoch(loader: DataLoader) -> None:
    with pytest.raises(ValueError, match=r"the DataLoader gave .* in epoch 1, and its length says"):
        credo.fit(MODEL, loader, credo.MAP(epochs=2))


@pytest.mark.parametrize("batch_size", [10, 5, None])
def test_tables_that_cannot_be_cut_evenly_give_every_row_the_same_weight(batch_size: int | None) -> None:
    assert learned_mean(credo.MAP(**SGD, batch_size=batch_size), (ONES, Y)) == pytest.approx(1.0, abs=0.05)


def test_an_epochs_log_likelihood_is_that_of_all_rows() -> None:
    """With weights that do not move, the average over three batches of 10, 10 and 1 is the exact mean over 21 rows."""
    start = {"weight": torch.full((1, 1), 0.3, dtype=torch.float64)}
    still = credo.MAP(epochs=1, learning_rate=1e-30)
    row = credo.fit(MODEL, DataLoader(rows(Y), batch_size=10), still, start=start).history[-1]
    exact = MODEL.likelihood.log_prob(0.3 * ONES, Y, {}).mean().item()
    assert row["log_likelihood"] == pytest.approx(exact, rel=1e-12)


def weighted(monkeypatch: pytest.MonkeyPatch, weight: Tensor) -> None:
    """Let whole batches carry weights."""
    plain = credo.loop.batches.TensorSource.steps
    monkeypatch.setattr(
        credo.loop.batches.TensorSource,
        "steps",
        lambda self, start: (replace(batch, weight=weight) for batch in plain(self, start)),
    )


STILL_SGD = {"epochs": 20, "batch_size": None, "optimizer": credo.SGD(momentum=0.0)}


@pytest.mark.parametrize(
    ("of_seven", "of_six"),
    [
        # what ascends divides its objective by N, which is 7 or 6 here
        (credo.MAP(**STILL_SGD, learning_rate=0.007), credo.MAP(**STILL_SGD, learning_rate=0.006)),
        (
            credo.DeepEnsemble(members=2, **STILL_SGD, learning_rate=0.007),
            credo.DeepEnsemble(members=2, **STILL_SGD, learning_rate=0.006),
        ),
        (credo.HMC(draws=5, warmup=5, chains=2),) * 2,
        (credo.Metropolis(draws=5, warmup=5, chains=2),) * 2,
    ],
    ids=["point", "ensemble", "hmc", "metropolis"],
)
def test_a_weight_of_two_is_a_row_that_comes_twice(
    of_seven: Method, of_six: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = Stream(5).normal(6, 2, dtype=torch.float64), Stream(6).normal(6, 1, dtype=torch.float64)
    net = credo.nets.MLP(2, 1, (4,)).double()
    model, twice = credo.Model(net, likelihoods.LearnedGaussian()), [0, 1, 2, 3, 4, 5, 5]
    repeated = credo.fit(model, (x[twice], y[twice]), of_seven, start=net)
    plain = credo.fit(model, (x, y), of_six, start=net)
    weighted(monkeypatch, torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 2.0], dtype=torch.float64))
    once = credo.fit(model, (x, y), of_six, start=net)
    for name, tensor in repeated.draw().variables.params.items():
        # sums in another order, twenty steps or ten trajectories on
        torch.testing.assert_close(once.draw().variables.params[name], tensor, rtol=1e-8, atol=1e-10)
    first = "layers.1.weight"
    assert not torch.allclose(plain.draw().variables.params[first], repeated.draw().variables.params[first], rtol=1e-4)


def test_weights_per_member_and_parts_of_a_batch() -> None:
    x, y = torch.arange(6.0).unsqueeze(1), torch.arange(6.0).unsqueeze(1)
    weight = torch.arange(12.0).reshape(2, 6)
    batch = credo.Batch(x, y, weight=weight, factor=3.0)
    each = torch.arange(12.0).reshape(2, 6) / 7
    target = credo.Target(credo.Model(nn.Linear(1, 1), likelihoods.Gaussian()), 6)
    torch.testing.assert_close(target.data_term(each, batch), 3.0 * (each * weight).sum(1))
    assert torch.equal(batch.take([1, 0, 1]).weight, weight[[1, 0, 1]])
    assert batch.take([1, 0, 1]).factor == 3.0
    assert torch.equal(batch.take([1]).x, x)
    assert torch.equal(batch.rows(2, 4).weight, weight[:, 2:4])
    sums = [target.data_term(each[:, i : i + 2], part) for i, part in zip((0, 2, 4), batch.parts(2), strict=True)]
    torch.testing.assert_close(torch.stack(sums).sum(0), target.data_term(each, batch))
    apart = credo.Batch(x.expand(2, 6, 1), y.expand(2, 6, 1), per_member=True)
    assert apart.take([0, 0, 1]).x.shape == (3, 6, 1)
    assert apart.rows(1, 3).y.shape == (2, 2, 1)
    assert target.factor(apart.rows(1, 3)) == 3.0
