"""Weights that are noise, the posterior without them, and the figure that says how many are left."""

from __future__ import annotations

import math

import pytest
import torch

import credo
from credo import likelihoods
from credo.core.trees import Variables
from credo.decide import Compression, LayerCompression, compression, log_alpha, prune_noise, read_sparse, write_sparse
from credo.posteriors import DiagonalGaussian, UnitNoise


@pytest.fixture
def posterior() -> DiagonalGaussian:
    """Two members with noise that is small, large, and on both sides of the threshold."""
    model = credo.Model(credo.nets.MLP(3, 2, (4,)), likelihoods.Categorical())
    params = model.network.initial(2, credo.Stream(1)).params
    names = [name for name in params if name.endswith("weight")]
    level = {name: 6.0 * credo.Stream(2, (name,)).normal(*params[name].shape) for name in names}
    scale = {name: params[name].abs() * (level[name] / 2).exp() for name in names}
    return DiagonalGaussian(model, Variables(params), scale)


def test_log_alpha_is_that_of_scale_and_mean(posterior: DiagonalGaussian) -> None:
    for name, found in log_alpha(posterior).items():
        expected = (posterior.scale[name] ** 2 / posterior.mean.params[name] ** 2).log()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)  # single precision


def test_log_alpha_of_noise_on_the_inputs_is_the_one_that_was_learned() -> None:
    x = credo.Stream(6).normal(20, 3)
    method = credo.VariationalDropout(epochs=1, sharing="unit", correlated=True, initial_alpha=0.5, learning_rate=1e-9)
    posterior = credo.fit(credo.nets.MLP(3, 1, (4,)), (x, x[:, :1]), method)
    assert isinstance(posterior, UnitNoise)
    found = log_alpha(posterior)
    assert {name: tuple(a.shape) for name, a in found.items()} == {
        "layers.1.weight": (1, 1, 3),
        "layers.3.weight": (1, 1, 4),
    }
    for a in found.values():
        torch.testing.assert_close(a, torch.full_like(a, math.log(0.5)))


@pytest.mark.parametrize("threshold", [-2.0, 0.0, 3.0])
def test_a_pruned_posterior_is_the_whole_one_with_those_weights_at_zero(
    posterior: DiagonalGaussian, threshold: float
) -> None:
    pruned, x = prune_noise(posterior, threshold), credo.Stream(3).normal(5, 3)
    functions = posterior.draw(8, seed=4)
    gone = {name: a[torch.arange(8) % 2] > threshold for name, a in log_alpha(posterior).items()}
    assert any(bool(g.any()) for g in gone.values())
    params = {n: w.masked_fill(gone[n], 0.0) if n in gone else w for n, w in functions.variables.params.items()}
    by_hand = posterior.model.network.evaluate(Variables(params), x)
    torch.testing.assert_close(pruned.draw(8, seed=4)(x), by_hand)
    # the twin that keeps the noise of removed weights is another function
    noisy = DiagonalGaussian(posterior.model, pruned.mean, posterior.scale)
    assert not torch.allclose(noisy.draw(8, seed=4)(x), by_hand)


def test_pruning_again_changes_nothing(posterior: DiagonalGaussian) -> None:
    once = prune_noise(posterior)
    for name, tensor in once.tensors().items():
        assert torch.equal(tensor, prune_noise(once).tensors()[name])


def test_compression_counts_what_is_left(posterior: DiagonalGaussian, tmp_path) -> None:
    pruned = prune_noise(posterior)
    for member in range(2):
        found = compression(pruned, member)
        left = {name: int((a[member] <= 3).sum()) for name, a in log_alpha(posterior).items()}
        assert {layer.name: layer.kept for layer in found.layers} == left
        assert found.weights == 20
        assert found.ratio == 20 / sum(left.values())
        assert f"{found.kept:,} of 20 weights are left" in found.verdict
    file = write_sparse(pruned, tmp_path / "net.safetensors", member=1)
    for name, tensor in read_sparse(file).items():
        assert torch.equal(tensor, pruned.mean.params[name][1])


def test_verdicts_speak_of_nothing_left_nothing_removed_and_an_empty_layer() -> None:
    assert "every input gets the same answer" in Compression((LayerCompression("a", 10, 0),)).verdict
    assert Compression((LayerCompression("a", 10, 0),)).ratio == math.inf
    assert "none of the 10 weights can be removed" in Compression((LayerCompression("a", 10, 10),)).verdict
    assert "nothing is left of b" in Compression((LayerCompression("a", 10, 3), LayerCompression("b", 5, 0))).verdict
    assert (
        Compression((LayerCompression("a", 10, 3), LayerCompression("b", 5, 1))).verdict
        == "4 of 15 weights are left, 3.75 times fewer"
    )
    assert LayerCompression("a", 10, 3).sparsity == pytest.approx(0.7)


def test_a_run_in_which_the_kl_wins_says_so() -> None:
    """A wide net and pure noise: everything is taken for noise, and the posterior tells."""
    x = credo.Stream(5).normal(40, 20)
    data = (x, torch.arange(40) % 2)
    method = credo.SparseVariationalDropout(epochs=150, learning_rate=0.02, noise_learning_rate=0.1, batch_size=None)
    posterior = credo.fit(credo.Model(credo.nets.MLP(20, 2, (50,)), likelihoods.Categorical()), data, method)
    assert isinstance(posterior, DiagonalGaussian)
    assert compression(prune_noise(posterior)).kept == 0
    told = [note for note in posterior.notes if "the posterior is the prior" in note]
    assert len(told) == 1, posterior.notes
    assert "all of them are noise" in told[0]
    assert "Train longer" not in told[0]  # the longer, the more noise
