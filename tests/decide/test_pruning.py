"""Pruning curves, and networks on disk without the weights that were removed."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import credo
from credo import likelihoods, priors
from credo.core.trees import Variables
from credo.decide import pruning_curve, read_sparse, write_sparse
from credo.posteriors import DiagonalGaussian


def clouds(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two classes told apart by the first of ten columns; the others say nothing."""
    y = torch.arange(count) % 2
    x = credo.Stream(seed).normal(count, 10)
    x[:, 0] += 4.0 * y - 2.0
    return x, y


@pytest.fixture(scope="module")
def fitted() -> DiagonalGaussian:
    net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.BatchNorm1d(20), nn.Linear(20, 2))
    model = credo.Model(net, likelihoods.Categorical(), priors.Normal(1.0))
    method = credo.BayesByBackprop(epochs=60, batch_size=50, learning_rate=0.02, estimator="local")
    return credo.fit(model, clouds(200, 0), method)


def test_a_curve_says_what_is_left_and_what_it_costs(fitted: DiagonalGaussian) -> None:
    curve = pruning_curve(fitted, clouds(500, 1), (0.0, 0.5, 0.75, 1.0))
    assert curve.fractions == (0.0, 0.5, 0.75, 1.0)
    total = sum(w[0].numel() for w in fitted.mean.params.values())
    assert curve.remaining == tuple(total - round(f * total) for f in curve.fractions)
    assert curve.accuracy is not None
    assert curve.accuracy[0] > 0.9
    assert curve.accuracy[1] > curve.accuracy[0] - 0.03  # most weights are noise: half of them cost next to nothing
    assert curve.accuracy[3] == 0.5  # nothing is left, and the classes are even
    assert curve.log_likelihood[0] > curve.log_likelihood[3]
    plain = fitted.at_mean().predict(clouds(500, 1)[0])
    assert curve.accuracy[0] == float((plain.label == clouds(500, 1)[1]).double().mean())


def test_weights_of_high_ratio_matter_most(fitted: DiagonalGaussian) -> None:
    """The twin that removes the weights of highest ratio first is far worse."""
    x, y = clouds(500, 1)

    def accuracy(posterior: DiagonalGaussian) -> float:
        return float((posterior.at_mean().predict(x).label == y).double().mean())

    right = fitted.prune(0.5)
    upside_down = DiagonalGaussian(
        fitted.model,
        Variables(
            {name: w * (right.mean.params[name] == 0) for name, w in fitted.mean.params.items()}, fitted.mean.buffers
        ),
        fitted.scale,
    )
    assert accuracy(right) > accuracy(upside_down) + 0.1


def test_a_curve_by_draws_and_for_numbers(fitted: DiagonalGaussian) -> None:
    assert pruning_curve(fitted, clouds(100, 1), (0.5,), draws=10).accuracy is not None
    x = credo.Stream(0).normal(30, 2)
    model = credo.Model(nn.Linear(2, 1), likelihoods.Gaussian(0.5))
    posterior = credo.fit(model, (x, x[:, 0]), credo.BayesByBackprop(epochs=3))
    curve = pruning_curve(posterior, (x, x[:, 0]), (0.0, 1.0))
    assert curve.accuracy is None
    assert curve.remaining == (3, 0)


def test_a_sparse_file_gives_the_pruned_network_back(fitted: DiagonalGaussian, tmp_path) -> None:
    pruned = fitted.prune(0.9)
    path = write_sparse(pruned, tmp_path / "net.safetensors")
    fresh = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.BatchNorm1d(20), nn.Linear(20, 2)).eval()
    fresh.load_state_dict(read_sparse(path))
    x = clouds(20, 2)[0]
    with torch.no_grad():
        outputs = pruned.model.network.evaluate(pruned.mean, x)[0]
        torch.testing.assert_close(fresh(x), outputs)


def test_a_sparse_file_is_as_small_as_what_is_left(tmp_path) -> None:
    net = nn.Linear(300, 200)
    model = credo.Model(net, likelihoods.Gaussian())
    x = credo.Stream(0).normal(4, 300)
    posterior = credo.fit(model, (x, x[:, :200]), credo.BayesByBackprop(epochs=1))
    whole, small = (
        write_sparse(posterior.prune(fraction), tmp_path / f"{fraction}.safetensors").stat().st_size
        for fraction in (0.0, 0.98)
    )
    assert small < 0.05 * whole  # two hundredths, twice over for places, and the header
    assert whole < 4 * 60_200 + 2000  # a dense tensor is stored as it is


def test_one_member_of_several_can_be_chosen(tmp_path) -> None:
    x = credo.Stream(0).normal(10, 3)
    model = credo.Model(nn.Linear(3, 1), likelihoods.LearnedGaussian())
    posterior = credo.fit(model, (x, x[:, 0]), credo.Ensemble(credo.BayesByBackprop(epochs=2), 2)).prune(0.5)
    read = read_sparse(write_sparse(posterior, tmp_path / "second.safetensors", member=1))
    assert set(read) == {"weight", "bias"}  # the noise of the likelihood is no part of the network
    assert torch.equal(read["weight"], posterior.mean.params["weight"][1])


def test_foreign_files_and_names_are_refused(fitted: DiagonalGaussian, tmp_path) -> None:
    with pytest.raises(ValueError, match="safetensors"):
        write_sparse(fitted, tmp_path / "net.pt")
    save_file({"weight": torch.ones(2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(credo.StorageError, match="not written by write_sparse"):
        read_sparse(tmp_path / "foreign.safetensors")
    with pytest.raises(credo.StorageError):
        read_sparse(tmp_path / "absent.safetensors")
