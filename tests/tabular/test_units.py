"""A prediction in other units is the same prediction."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

import credo
from credo import likelihoods
from credo.predictive import predictive
from credo.tabular.units import in_double, in_units, standardizing

MEAN, SCALE = np.array([100.0, -3.0]), np.array([7.0, 1e-4])
NOISE = [likelihoods.Gaussian(0.3), likelihoods.LearnedGaussian(), likelihoods.HeteroscedasticGaussian(0.01)]


def prediction(likelihood, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    outputs = 4 if isinstance(likelihood, likelihoods.HeteroscedasticGaussian) else 2
    draws = torch.randn(3, 8, outputs, generator=generator, dtype=dtype)
    params = {}
    if isinstance(likelihood, likelihoods.LearnedGaussian):
        params = {"log_scale": torch.randn(3, 2, generator=generator, dtype=dtype)}
    return predictive(likelihood, draws, params, torch.tensor([0.2, 0.3, 0.5], dtype=dtype).log())


@pytest.mark.parametrize("likelihood", NOISE)
def test_every_moment_and_quantile_moves_along(likelihood):
    before = prediction(likelihood)
    after = in_units(before, MEAN, SCALE)
    shift, stretch = torch.tensor(MEAN), torch.tensor(SCALE)
    assert torch.allclose(after.mean, before.mean * stretch + shift, rtol=1e-12)
    for part in ("epistemic", "aleatoric", "variance"):
        assert torch.allclose(getattr(after, part), getattr(before, part) * stretch**2, rtol=1e-9)
    assert torch.allclose(after.quantile(0.9), before.quantile(0.9) * stretch + shift, rtol=1e-9)


@pytest.mark.parametrize("likelihood", NOISE)
def test_density_changes_by_the_volume(likelihood):
    before = prediction(likelihood)
    y = torch.randn(8, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    after = in_units(before, MEAN, SCALE).log_prob(y * torch.tensor(SCALE) + torch.tensor(MEAN))
    expected = before.log_prob(y) - np.log(SCALE).sum()
    # y * 1e-4 - 3 in float64 keeps twelve digits of y
    assert torch.allclose(after, expected, atol=1e-6)
    assert not torch.allclose(after, before.log_prob(y), atol=0.5)  # the twin that forgets the volume


def test_against_scipy():
    single = predictive(likelihoods.Gaussian(0.5), torch.ones(1, 1, 1).double(), {}, torch.zeros(1).double())
    ours = in_units(single, np.array([10.0]), np.array([4.0])).log_prob(torch.tensor([13.0]).double())
    assert float(ours) == pytest.approx(norm.logpdf(13.0, 14.0, 2.0), rel=1e-9)


def test_in_double_a_row_stands_alone():
    """In float32 the twin's prediction of a row changes with the rows beside it; in float64 not to 1e-12."""
    x = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    y = x[:, :1].sin()
    for method in (
        credo.DeepEnsemble(2, epochs=2),
        credo.MCDropout(epochs=2, rate=0.2),
        credo.BayesByBackprop(epochs=2),
    ):
        posterior = credo.fit(credo.nets.MLP(6, 1), (x, y), method, progress=False)
        precise = in_double(posterior)
        together, alone = precise.predict(x.double()), precise.predict(x[:1].double())
        assert torch.allclose(together.mean[:1], alone.mean, rtol=0, atol=1e-12)
        assert together.mean.dtype == torch.float64
        if isinstance(method, credo.Ensemble):
            # the weights have 24 bits, the sums inside the network lose a few
            assert torch.allclose(posterior.predict(x).mean.double(), together.mean, atol=1e-5)


def test_counts_and_log_normal_targets_keep_their_own_units():
    for likelihood, outputs in ((likelihoods.Poisson(), 1), (likelihoods.LogNormal(), 2)):
        found = predictive(likelihood, torch.zeros(1, 1, outputs), {}, torch.zeros(1))
        with pytest.raises(TypeError, match="cannot be shifted"):
            in_units(found, MEAN[:1], SCALE[:1])
        same = in_units(found, np.zeros(1), np.ones(1))
        assert (same.mean.dtype, same.likelihood) == (torch.float64, likelihood)
    classes = predictive(likelihoods.Categorical(), torch.zeros(1, 1, 3), {}, torch.zeros(1))
    with pytest.raises(TypeError, match="only predictions of numbers"):
        in_units(classes, MEAN[:1], SCALE[:1])


def test_student_t_moves_and_stretches_with_its_units():
    likelihood = likelihoods.HeteroscedasticStudentT()
    own = {name: value.unsqueeze(0) for name, value in likelihood.parameters(2).items()}
    base = predictive(likelihood, torch.tensor([[[0.5, 0.2]]]), own, torch.zeros(1))
    found = in_units(base, np.array([100.0]), np.array([20.0]))
    torch.testing.assert_close(found.mean, 100.0 + 20.0 * base.mean.double())
    torch.testing.assert_close(found.quantile(0.9), 100.0 + 20.0 * base.in_double().quantile(0.9))
    expected = base.in_double().log_prob(torch.tensor([[1.0]]).double()) - np.log(20.0)
    torch.testing.assert_close(found.log_prob(torch.tensor([[120.0]])), expected)


def test_standardizing_guards_constant_columns():
    rows = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 1e-8, 1e8] + [5.0, 0.0, 1e9]
    rows = np.c_[rows, np.full(50, 0.1), np.zeros(50), np.full(50, 1e12) + np.arange(50) % 5 * 1e-4]
    model = standardizing(credo.Model(credo.nets.MLP(6, 1), likelihoods.Gaussian()), rows)
    z = model.network.scaled(torch.from_numpy(rows))
    assert z.dtype == torch.float32
    # float32 carries seven digits
    assert torch.allclose(z[:, :3].std(0, correction=0), torch.ones(3), atol=1e-5)
    assert float(z[:, 3:].abs().max()) < 0.1  # spread that is only rounding is not blown up
