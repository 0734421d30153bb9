"""One seed, one run; and batches that stand for all the data."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import credo
from credo import likelihoods, nets
from credo.core.rng import Stream
from credo.loop.batches import TensorSource, tensor_source
from credo.loop.loaders import LoaderSource
from credo.loop.roles import Examples

N = 24
X = Stream(2, ("batches",)).normal(N, 2, dtype=torch.float64)
Y = X.sum(1, keepdim=True)
CPU = torch.device("cpu")


def rows_source(size: int, batch_size: int | None, members: int = 1, seed: int = 0) -> TensorSource:
    rows = torch.arange(size, dtype=torch.float64)
    return TensorSource(Examples(rows, rows), batch_size=batch_size, members=members, order=Stream(seed, ("order",)))


def epoch_rows(source: TensorSource, epoch: int) -> Tensor:
    """The rows of an epoch in the order of its batches: (N,), or (M, N)."""
    batches = islice(source.steps(epoch * source.batches), source.batches)
    return torch.cat([batch.x for batch in batches], dim=-1)


@pytest.mark.parametrize(("size", "batch_size"), [(24, 8), (25, 8), (9, 8), (7, 3), (5, 1), (5, 100), (5, None)])
def test_the_batches_of_an_epoch_are_a_permutation_in_even_sizes(size: int, batch_size: int | None) -> None:
    source = rows_source(size, batch_size)
    sizes = [batch.examples for batch in islice(source.steps(0), source.batches)]
    assert max(sizes) <= (batch_size or size)
    assert max(sizes) - min(sizes) <= 1
    assert source.batches == -(-size // (batch_size or size))
    for epoch in range(3):
        assert torch.equal(epoch_rows(source, epoch).sort().values, torch.arange(size, dtype=torch.float64))


def test_each_epoch_and_each_member_has_its_own_order() -> None:
    source = rows_source(N, 5, members=3)
    orders = torch.stack([epoch_rows(source, epoch) for epoch in range(4)])  # (epochs, M, N)
    assert torch.equal(orders.sort(-1).values, torch.arange(N, dtype=torch.float64).expand(4, 3, N))
    assert len({tuple(order.tolist()) for order in orders.reshape(12, N)}) == 12


def test_an_order_is_that_of_its_seed() -> None:
    first, again, other = (epoch_rows(rows_source(N, 5, seed=seed), 0) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("start", [0, 1, 4, 5, 13])
@pytest.mark.parametrize("members", [1, 3])
def test_steps_from_the_middle_are_those_of_the_whole(start: int, members: int) -> None:
    whole = list(islice(rows_source(N, 5, members).steps(0), 20))
    rest = list(islice(rows_source(N, 5, members).steps(start), 20 - start))
    assert all(torch.equal(a.x, b.x) and torch.equal(a.y, b.y) for a, b in zip(whole[start:], rest, strict=True))


@pytest.mark.parametrize("start", [0, 2, 3, 7])
def test_steps_of_a_loader_from_the_middle_are_those_of_the_whole(start: int) -> None:
    loader = DataLoader(TensorDataset(X, Y), batch_size=7, shuffle=True)
    source = LoaderSource(loader, order=Stream(0), device=CPU, dtype=torch.float64)
    whole, rest = list(islice(source.steps(0), 10)), list(islice(source.steps(start), 10 - start))
    assert all(torch.equal(a.x, b.x) for a, b in zip(whole[start:], rest, strict=True))


def test_a_members_order_does_not_depend_on_the_number_of_members() -> None:
    three, five = (epoch_rows(rows_source(N, 5, members), 2) for members in (3, 5))
    assert torch.equal(three, five[:3])


def unbiased(scaled: bool) -> bool:
    """Whether the average over an epoch's equal batches is the full log joint of every member."""
    model = credo.Model(nets.MLP(2, 1, (5,)).double(), likelihoods.Gaussian(0.7))
    target = credo.Target(model, N, temperature=1.7)
    variables = model.network.initial(3, Stream(0))
    source = tensor_source((X, Y), batch_size=6, members=3, order=Stream(4), device=CPU, dtype=torch.float64)
    each = []
    for batch in islice(source.steps(0), source.batches):
        log_joint = target.log_joint(variables, batch)
        if not scaled:
            unscaled = target.log_likelihood(variables, batch).sum(1) + target.log_prior(variables.params)
            log_joint = target.temper(unscaled)
        each.append(log_joint)
    likelihood = model.likelihood.log_prob(model.network.evaluate(variables, X), Y, {}).sum(1)
    full = (likelihood + target.log_prior(variables.params)) / 1.7
    return torch.allclose(torch.stack(each).mean(0), full, rtol=1e-10)


def test_a_batch_stands_for_all_the_data() -> None:
    assert unbiased(scaled=True)


def test_without_n_over_b_it_would_not() -> None:
    assert not unbiased(scaled=False)


METHODS = [
    credo.MAP(epochs=3, batch_size=7),
    credo.DeepEnsemble(members=2, epochs=3, batch_size=7),
    credo.MCDropout(rate=0.3, epochs=3, batch_size=7),
    credo.BayesByBackprop(epochs=3, batch_size=7),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_a_run_does_not_care_what_else_is_called(method: credo.Method, tmp_path) -> None:
    model = credo.Model(nets.MLP(2, 1, (5,)), likelihoods.LearnedGaussian())

    def run(busy: bool) -> credo.Posterior:
        def meanwhile(report: object) -> None:
            torch.manual_seed(torch.randint(1000, ()).item())
            torch.randn(5)

        if not busy:
            return credo.fit(model, (X, Y), method, seed=11)
        torch.rand(3)
        held_out, folder = (X[:5], Y[:5]), credo.Checkpoint(tmp_path, seconds=0.0)
        return credo.fit(
            model, (X, Y), method, seed=11, validation=held_out, checkpoint=folder, progress=meanwhile, seconds=1e6
        )

    quiet, busy = run(busy=False), run(busy=True)
    assert all(torch.equal(quiet.tensors()[name], tensor) for name, tensor in busy.tensors().items())
    for one, other in zip(quiet.history, busy.history, strict=True):
        assert {**one, "seconds": 0.0} == {name: other[name] for name in one} | {"seconds": 0.0}


def test_the_first_members_of_a_larger_ensemble_are_those_of_a_smaller_one() -> None:
    model = credo.Model(nets.MLP(2, 1, (5,)).double(), likelihoods.Gaussian())
    small, large = (
        credo.fit(model, (X, Y), credo.DeepEnsemble(members=m, epochs=3, batch_size=7)).members() for m in (2, 4)
    )
    for name, weight in small.params.items():
        torch.testing.assert_close(weight, large.params[name][:2], rtol=1e-9, atol=1e-12)
