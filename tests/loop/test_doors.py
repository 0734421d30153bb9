"""What fit accepts, and the sentence for what it does not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

import credo
from credo import likelihoods, nets

N = 20
X = credo.Stream(1, ("doors",)).normal(N, 3)
Y = X[:, :1] * 2 - 1
ONCE = credo.MAP(epochs=2, batch_size=8, learning_rate=1e-2)


def model(outputs: int = 1, inputs: int = 3) -> credo.Model:
    return credo.Model(nets.MLP(inputs, outputs, (6,)), likelihoods.Gaussian(0.5))


def same(first: credo.Posterior, second: credo.Posterior) -> bool:
    one, two = first.tensors(), second.tensors()
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    "data",
    [
        [X, Y],
        (X.numpy(), Y.numpy()),
        (X.double().numpy(), Y.double().numpy()),
        (X.tolist(), Y.tolist()),
        (X, Y.squeeze(1)),
        (X, Y.squeeze(1).tolist()),
        (list(X), list(Y)),
        (list(X.numpy()), list(Y.numpy())),
        (X.numpy().astype(object), Y.numpy().astype(object)),
        (X.numpy().astype(">f8"), Y.numpy().astype(">f4")),
        (X.flip(0).numpy()[::-1], Y.flip(0).numpy()[::-1]),
        (np.broadcast_to(X.numpy(), X.shape), np.ma.masked_invalid(Y.numpy())),
        TensorDataset(X, Y),
    ],
    ids=[
        "list of tensors",
        "arrays",
        "doubles",
        "lists",
        "y is (N,)",
        "y is a flat list",
        "lists of tensors",
        "lists of arrays",
        "objects",
        "another byte order",
        "reversed arrays",
        "read-only and masked arrays",
        "TensorDataset",
    ],
)
def test_the_same_table_by_any_door_gives_the_same_bits(data: Any) -> None:
    assert same(credo.fit(model(), (X, Y), ONCE), credo.fit(model(), data, ONCE))


def test_two_columns_of_targets() -> None:
    posterior = credo.fit(model(outputs=2), (X, X[:, :2]), ONCE)
    assert posterior.predict(X).mean.shape == (N, 2)


def test_one_feature() -> None:
    assert credo.fit(model(inputs=1), (X[:, :1], Y), ONCE).predict(X[:, :1]).mean.shape == (N, 1)


def test_one_example() -> None:
    assert credo.fit(model(), (X[:1], Y[:1]), ONCE).record.size == 1


def test_three_classes_as_numbers_of_any_type() -> None:
    labels = torch.arange(N) % 3
    three = credo.Model(nets.MLP(3, 3, (6,)), likelihoods.Categorical())
    whole = credo.fit(three, (X, labels), ONCE)
    assert whole.predict(X).probs.shape == (N, 3)
    for other in (labels.to(torch.uint8), labels.float(), labels.unsqueeze(1), labels.tolist(), labels.numpy()):
        assert same(whole, credo.fit(three, (X, other), ONCE))


@pytest.mark.parametrize(
    ("outputs", "y", "chosen"),
    [
        (1, Y, "LearnedGaussian"),
        (2, X[:, :2], "LearnedGaussian"),
        (3, torch.arange(N) % 3, "Categorical"),
        (1, torch.arange(N) % 2, "Bernoulli"),
        (1, torch.arange(N) % 2 == 0, "Bernoulli"),
    ],
    ids=["numbers", "two columns", "classes", "zero or one", "yes or no"],
)
def test_a_bare_module_chooses_a_likelihood_and_says_so(outputs: int, y: Tensor, chosen: str) -> None:
    posterior = credo.fit(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, outputs)), (X, y), ONCE)
    likelihood = posterior.model.likelihood
    assert type(getattr(likelihood, "base", likelihood)).__name__ == chosen
    assert any(note.startswith(f"likelihood: {chosen}") and "because" in note for note in posterior.notes)


def test_a_model_with_a_likelihood_is_left_alone() -> None:
    assert credo.fit(model(), (X, Y), ONCE).notes == ()


class Pairs(Dataset):
    """The table, as a data set that remembers which rows were asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __len__(self) -> int:
        return N

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        self.asked.append(int(row))
        return X[row], Y[row]


def batch_rows(loader: DataLoader, epochs: int, seed: int = 0) -> list[int]:
    """The rows that a fit asks for in its epochs, without those of the first look at the data."""
    data = loader.dataset
    data.asked.clear()
    posterior = credo.fit(model(), loader, credo.MAP(epochs=epochs), seed=seed)
    assert posterior.record.finished
    return data.asked[-epochs * len(loader.sampler) :]


def test_a_shuffled_loader_gives_another_permutation_each_epoch_by_the_seed_alone() -> None:
    loader = DataLoader(Pairs(), batch_size=8, shuffle=True)
    rows = batch_rows(loader, 3)
    epochs = [rows[i * N : (i + 1) * N] for i in range(3)]
    assert all(sorted(epoch) == list(range(N)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    torch.manual_seed(123)
    assert batch_rows(loader, 3) == rows
    assert batch_rows(loader, 3, seed=1) != rows


def test_a_sequential_loader_keeps_its_order() -> None:
    assert batch_rows(DataLoader(Pairs(), batch_size=8), 2) == [*range(N), *range(N)]


def test_a_loader_and_a_table_in_one_batch_agree() -> None:
    loader = DataLoader(TensorDataset(X.double(), Y.double()), batch_size=N)
    whole = credo.MAP(epochs=5, batch_size=None)
    assert same(credo.fit(model(), loader, whole), credo.fit(model(), (X, Y), whole))


def test_members_share_the_batches_of_a_loader() -> None:
    loader = DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True)
    assert credo.fit(model(), loader, credo.DeepEnsemble(members=3, epochs=2)).members().members == 3


def test_a_sampler_of_ones_own_is_used_and_counted() -> None:
    loader = DataLoader(Pairs(), batch_size=4, sampler=SubsetRandomSampler(range(12)))
    assert set(batch_rows(loader, 2)) == set(range(12))
    posterior = credo.fit(model(), loader, ONCE)
    assert posterior.record.size == 12
    assert any("own order" in note and "12 examples" in note for note in posterior.notes)


def test_a_batch_sampler_of_ones_own_is_used() -> None:
    loader = DataLoader(Pairs(), batch_sampler=BatchSampler(SequentialSampler(range(N)), 6, drop_last=True))
    posterior = credo.fit(model(), loader, ONCE)
    assert posterior.record.size == 18, "what it gives in an epoch"
    assert posterior.history[-1]["epoch"] == 2


def test_sampling_with_replacement_keeps_its_settings() -> None:
    loader = DataLoader(Pairs(), batch_size=4, sampler=RandomSampler(range(N), replacement=True, num_samples=8))
    rows = batch_rows(loader, 50)
    assert len(rows) == 400
    assert any(len(set(rows[i : i + 8])) < 8 for i in range(0, 400, 8))


def test_workers_give_what_the_main_process_gives() -> None:
    one, two = (DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True, num_workers=n) for n in (0, 1))
    assert same(credo.fit(model(), one, credo.MAP(epochs=1)), credo.fit(model(), two, credo.MAP(epochs=1)))


class Jittered(Dataset):
    """A data set whose transform reads torch's global generator, as those of images do."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return X[row] + torch.randn(3), Y[row]


def test_random_transforms_repeat_with_the_seed_and_leave_the_global_generator_alone() -> None:
    loader = DataLoader(Jittered(), batch_size=8, shuffle=True)
    described = model()
    before = torch.get_rng_state()
    first = credo.fit(described, loader, ONCE)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(99)
    assert same(first, credo.fit(model(), loader, ONCE))
    assert not same(first, credo.fit(model(), loader, ONCE, seed=1))


class Endless(IterableDataset):
    def __iter__(self) -> Any:
        return iter([(X[0], Y[0])] * 4)


class Counted(Endless):
    def __len__(self) -> int:
        return 4


def test_an_iterable_data_set_with_a_length_will_do() -> None:
    assert credo.fit(model(), DataLoader(Counted(), batch_size=2), ONCE).record.size == 4


def test_each_member_learns_from_its_own_data() -> None:
    shifts = torch.tensor([-3.0, 0.0, 3.0])
    y = Y.unsqueeze(0) + shifts[:, None, None]
    data = credo.PerMember(X.expand(3, N, 3), y)
    posterior = credo.fit(model(), data, credo.DeepEnsemble(members=3, epochs=150, batch_size=7, learning_rate=0.05))
    means = posterior.predict(X).draws.mean((1, 2)) - Y.mean()
    # three trained nets, three targets three apart: what is left after 150 epochs is far below one
    torch.testing.assert_close(means, shifts, atol=0.3, rtol=0.0)


def test_data_per_member_that_are_all_alike_equal_shared_data() -> None:
    data = credo.PerMember(X.expand(2, N, 3), Y.expand(2, N, 1))
    method = credo.DeepEnsemble(members=2, epochs=3, batch_size=6)
    assert same(credo.fit(model(), data, method), credo.fit(model(), (X, Y), method))


def changed(values: Tensor, row: int, value: float) -> Tensor:
    values = values.clone()
    values[row] = value
    return values


LONG = torch.arange(N)
REFUSED: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "NaN in x": (
        ValueError,
        "x has NaN or infinite values (3, the first in row 4",
        {"data": (changed(X, 4, torch.nan), Y)},
    ),
    "NaN in y": (
        ValueError,
        "y has NaN or infinite values (1, the first in row 7",
        {"data": (X, changed(Y, 7, torch.nan))},
    ),
    "infinity in x": (ValueError, "the first in row 0)", {"data": (changed(X, 0, -torch.inf), Y)}),
    "doubles beyond float32": (ValueError, "x has NaN or infinite", {"data": (X.double() * 1e60, Y)}),
    "other lengths": (ValueError, "x has 20 rows and y has 19", {"data": (X, Y[1:])}),
    "no examples": (ValueError, "the data are empty", {"data": (X[:0], Y[:0])}),
    "x alone": (TypeError, "a pair (x, y), a TensorDataset or a DataLoader, got Tensor", {"data": X}),
    "three arrays": (ValueError, "a pair (x, y): inputs and targets, got 3", {"data": (X, Y, Y)}),
    "nothing": (TypeError, "got NoneType", {"data": None}),
    "ragged": (TypeError, "x cannot be read as numbers", {"data": ([[1.0], [1.0, 2.0]], [1.0, 2.0])}),
    "masked": (ValueError, "y has masked values", {"data": (X, np.ma.masked_less(Y.numpy(), 0.0))}),
    "a class for a method": (TypeError, "a value such as credo.MAP(epochs=100)", {"method": credo.MAP}),
    "no method": (TypeError, "a value such as credo.MAP(epochs=100), got None", {"method": None}),
    "an odd plan": (ValueError, "plan must be one of 'together', 'one by one'", {"plan": "sideways"}),
    "a sparse x": (TypeError, "x is a sparse tensor", {"data": (X.to_sparse(), Y)}),
    "words": (TypeError, "x cannot be read as numbers", {"data": (["a", "b"], [1.0, 2.0])}),
    "a number for y": (ValueError, "y is a single number", {"data": (X, 3.0)}),
    "another width": (ValueError, "cannot be called on inputs of shape (B, 2)", {"data": (X[:, :2], Y)}),
    "a flat x": (ValueError, "a column, x[:, None]", {"data": (X[:, 0], Y)}),
    "whole numbers in x": (ValueError, "give them as floats", {"data": (X.round().int(), Y)}),
    "two columns, one output": (ValueError, "2 column(s) and the network 1 output(s)", {"data": (X, X[:, :2])}),
    "y with three axes": (ValueError, "shape (20, 1, 1)", {"data": (X, Y.unsqueeze(2))}),
    "resume nothing": (ValueError, "resume=True needs checkpoint=", {"resume": True}),
    "temperature 0": (ValueError, "temperature must be a positive number, got 0", {"temperature": 0}),
    "temperature NaN": (ValueError, "temperature must be a positive number", {"temperature": float("nan")}),
    "no time": (ValueError, "seconds must be a positive number, got -1", {"seconds": -1}),
    "a text for a seed": (TypeError, "seed must be a whole number, got '1'", {"seed": "1"}),
    "a fraction for a seed": (TypeError, "seed must be a whole number, got 0.5", {"seed": 0.5}),
    "validation lengths": (ValueError, "validation x has 20 rows and validation y has 3", {"validation": (X, Y[:3])}),
    "validation NaN": (ValueError, "validation y has NaN", {"validation": (X, changed(Y, 2, torch.nan))}),
    "validation alone": (TypeError, "a pair (x, y)", {"validation": X}),
    "start is a text": (TypeError, "start must be a posterior, a module or a dict", {"start": "weights"}),
    "start has more than the network": (
        ValueError,
        "the network has no 'extra'",
        {"start": {**nets.MLP(3, 1, (6,)).state_dict(), "extra": torch.ones(1)}},
    ),
    "start is wider": (ValueError, "has shape (7, 3), and the network needs (6, 3)", {"start": nets.MLP(3, 1, (7,))}),
    "start is half": (
        ValueError,
        "parameter 'layers.1.weight' is missing",
        {"start": {"layers.1.bias": torch.ones(6)}},
    ),
    "loader without length": (
        ValueError,
        "the DataLoader has no length",
        {"data": DataLoader(Endless(), batch_size=2)},
    ),
    "loader of nothing": (ValueError, "gives no batch", {"data": DataLoader(Pairs(), batch_size=50, drop_last=True)}),
    "loader of examples": (ValueError, "batch_size=None", {"data": DataLoader(Pairs(), batch_size=None)}),
    "loader of x alone": (
        ValueError,
        "a batch of the DataLoader must be a pair (x, y)",
        {"data": DataLoader(TensorDataset(X), batch_size=4)},
    ),
    "loader with NaN": (
        ValueError,
        "x has NaN or infinite values",
        {"data": DataLoader(TensorDataset(changed(X, 3, torch.nan), Y), batch_size=4)},
    ),
    "members of the data": (
        ValueError,
        "x is for 2 members, y for 2, and the method has 1",
        {"data": credo.PerMember(X.expand(2, N, 3), Y.expand(2, N, 1))},
    ),
    "rows per member": (ValueError, "x has 20 rows and y has 5", {"data": credo.PerMember(X[None], Y[None, :5])}),
    "flat data per member": (ValueError, "an axis for members", {"data": credo.PerMember(X[:1], Y[:1, 0])}),
}


@pytest.mark.parametrize(("kind", "sentence", "given"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_meant_is_refused_with_a_sentence(
    kind: type[Exception], sentence: str, given: dict[str, Any]
) -> None:
    with pytest.raises(kind, match=re.escape(sentence)):
        credo.fit(model(), **{"data": (X, Y), "method": ONCE, **given})


def test_a_network_that_cannot_take_x_is_refused_whatever_the_method() -> None:
    for method in (ONCE, credo.MCDropout(rate=0.1), credo.BayesByBackprop(), credo.DeepEnsemble(members=2)):
        with pytest.raises(ValueError, match="cannot be called on inputs"):
            credo.fit(model(), (X[:, :2], Y), method)


def test_wrong_classes_are_refused() -> None:
    three = credo.Model(nets.MLP(3, 3, (6,)), likelihoods.Categorical())
    with pytest.raises(ValueError, match="classes must be 0 to 2"):
        credo.fit(three, (X, LONG % 4), ONCE)
    with pytest.raises(ValueError, match="classes must be 0 to 2"):
        credo.fit(three, DataLoader(TensorDataset(X, LONG % 4), batch_size=4), ONCE)


def test_a_sampler_that_runs_dry_is_refused_not_waited_for() -> None:
    rows = iter(range(N))

    class Once(SequentialSampler):
        def __iter__(self) -> Any:
            return rows

    loader = DataLoader(Pairs(), batch_size=5, sampler=Once(range(N)))
    with pytest.raises(ValueError, match="must begin anew in every epoch"):
        credo.fit(model(), loader, ONCE)


def test_data_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame, series = pandas.DataFrame(X.numpy(), index=range(5, 5 + N)), pandas.Series(Y.squeeze(1).numpy())
    posterior = credo.fit(model(), (frame, series), ONCE)
    assert same(posterior, credo.fit(model(), (X, Y), ONCE))
    assert torch.equal(posterior.predict(frame).mean, posterior.predict(X).mean)


def test_lists_for_a_double_network_keep_their_digits() -> None:
    double = credo.Model(nets.MLP(1, 1, ()).double(), likelihoods.Gaussian())
    start, method = (
        {"layers.1.weight": torch.ones(1, 1), "layers.1.bias": torch.zeros(1)},
        credo.MAP(learning_rate=1e-30),
    )
    posterior = credo.fit(double, ([[0.1], [0.2]], [0.1, 0.2]), method, start=start)
    assert posterior.predict([[0.1]]).mean.item() == 0.1


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_fit_does_not_care_in_which_mode_it_is_called(mode: Any) -> None:
    with mode():
        inside = credo.fit(model(), (X.clone(), Y.clone()), ONCE)
    assert same(inside, credo.fit(model(), (X, Y), ONCE))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_device_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="torch finds no CUDA device"):
        credo.fit(model(), (X, Y), ONCE, device="cuda")


def test_a_whole_number_of_any_type_is_the_same_seed() -> None:
    assert same(credo.fit(model(), (X, Y), ONCE, seed=5), credo.fit(model(), (X, Y), ONCE, seed=np.int64(5)))


def test_a_subset_is_counted_by_its_own_length() -> None:
    assert credo.fit(model(), DataLoader(Subset(Pairs(), range(9)), batch_size=4), ONCE).record.size == 9


def test_start_from_a_module_a_dict_a_posterior_or_members() -> None:
    net = nets.MLP(3, 1, (6,))
    still = credo.MAP(epochs=1, learning_rate=1e-30)
    given = dict(net.named_parameters())
    for start in (net, net.state_dict()):
        weights = credo.fit(model(), (X, Y), still, start=start).members().params
        assert all(torch.equal(weights[name][0], given[name]) for name in given)
    three = credo.fit(model(), (X, Y), credo.DeepEnsemble(members=3, epochs=1))
    five = credo.fit(model(), (X, Y), credo.Ensemble(still, members=5), start=three).members()
    expected = three.members().take([0, 1, 2, 0, 1])
    assert all(torch.equal(five.params[name], expected.params[name]) for name in given)
    again = credo.fit(model(), (X, Y), credo.Ensemble(still, members=3), start=three.members().params).members()
    assert all(torch.equal(again.params[name], three.members().params[name]) for name in given)


def test_start_brings_batch_norms_statistics_and_leaves_the_learned_noise_to_the_model() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    first = credo.fit(credo.Model(net, likelihoods.LearnedGaussian()), (X, Y), ONCE)
    fixed = credo.fit(credo.Model(net, likelihoods.Gaussian(1.0)), (X, Y), ONCE, start=first)
    assert int(first.members().buffers["1.num_batches_tracked"]) == 6
    assert int(fixed.members().buffers["1.num_batches_tracked"]) == 12


def test_start_accepts_the_second_name_of_tied_weights() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    net[2].weight = net[0].weight
    still = credo.MAP(epochs=1, learning_rate=1e-30)
    posterior = credo.fit(credo.Model(net, likelihoods.Gaussian()), (X, X), still, start=net.state_dict())
    assert "2.weight" not in posterior.members().params
    with torch.no_grad():
        torch.testing.assert_close(posterior.predict(X).mean, net(X))


def test_batch_norm_survives_a_rest_of_one_example() -> None:
    """9 examples in batches of 8 would leave one, of which batch norm cannot take a variance: they are 5 and 4."""
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    assert credo.fit(net, (X[:9], Y[:9]), ONCE).record.finished


def test_predict_checks_its_inputs() -> None:
    posterior = credo.fit(model(), (X, Y), ONCE)
    assert posterior.predict(X.double().numpy()).mean.shape == (N, 1)
    assert posterior.predict(X.tolist()).mean.dtype == torch.float32
    for x, sentence in (
        (X[:, :2], "cannot be called on inputs of shape (B, 2)"),
        (changed(X, 0, torch.nan), "NaN or infinite"),
        (X[:0], "no example"),
        (1.0, "x is a single number: it needs one row per example"),
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            posterior.predict(x)
    with pytest.raises(ValueError, match="draws must be a whole number of at least 1, got 0"):
        posterior.predict(X, draws=0)


class Weighing(nn.Module):
    """A parameter that no initializer of a layer reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(3, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weights


def test_members_that_would_start_alike_are_told_of() -> None:
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    method = credo.DeepEnsemble(members=2, epochs=1)
    alike = credo.fit(Weighing(), (x, x[:, 0]), method, progress=False)
    assert any("start with the same weights" in note for note in alike.notes)
    apart = credo.fit(credo.Model(Weighing), (x, x[:, 0]), method, progress=False)
    assert not any("start with the same" in note for note in apart.notes)
    alone = credo.fit(Weighing(), (x, x[:, 0]), credo.MAP(epochs=1), progress=False)
    assert not any("start with the same" in note for note in alone.notes)
