"""Variational dropout has a prior of its own: nothing that came of it is compared with the model's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import credo
from credo import decide, likelihoods, priors
from credo.diagnostics import trust
from credo.methods.base import Method
from credo.posteriors import DiagonalGaussian, Posterior, UnitNoise

X = credo.Stream(0).normal(20, 3)
DATA = (X, X[:, :1])
METHODS: dict[str, Method] = {
    "layer": credo.VariationalDropout(epochs=1),
    "weight": credo.VariationalDropout(epochs=1, sharing="weight"),
    "sparse": credo.SparseVariationalDropout(epochs=1),
    "ensemble": credo.Ensemble(credo.SparseVariationalDropout(epochs=1), members=2),
}


def fitted(method: Method) -> Posterior:
    return credo.fit(credo.Model(credo.nets.MLP(3, 1, (4,)), likelihoods.Gaussian(0.5)), DATA, method)


def refuses(posterior: Posterior) -> None:
    for ask in (lambda: posterior.kl(), lambda: trust(posterior, DATA, draws=30)):
        with pytest.raises(ValueError, match=r"LogUniform.*improper.*posterior\.history"):
            ask()


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_neither_kl_nor_trust_falls_back_on_the_prior_that_was_not_used(method: Method) -> None:
    posterior = fitted(method)
    refuses(posterior)
    assert posterior.history[-1]["kl"] > 0  # where the sentence sends people


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_posterior_carries_the_prior_that_was_used(method: Method) -> None:
    """The log-uniform one for weights with noise, that of the user for the others; the user's model stays as it is."""
    model = credo.Model(credo.nets.MLP(3, 1, (4,)), likelihoods.Gaussian(0.5), priors.Normal(scale=2.0))
    posterior = credo.fit(model, DATA, method)
    assert posterior.prior == priors.LogUniform(("layers.1.weight", "layers.3.weight"), priors.Normal(scale=2.0))
    assert model.prior == priors.Normal(scale=2.0)
    assert credo.fit(model, DATA, credo.BayesByBackprop(epochs=1)).prior == model.prior


@pytest.mark.parametrize(
    "change",
    [lambda p: p.prune(0.5), lambda p: decide.prune_noise(p, 0.0), lambda p: p.to("cpu")],
    ids=["prune", "prune_noise", "to"],
)
def test_what_is_made_of_such_a_posterior_knows_it_too(
    change: Callable[[DiagonalGaussian], DiagonalGaussian], tmp_path: Path
) -> None:
    changed = change(fitted(METHODS["sparse"]))
    refuses(changed)
    refuses(credo.load(changed.save(tmp_path / "run")))


def test_the_prior_comes_back_from_a_folder(tmp_path: Path) -> None:
    """The broken twin, a folder that names the user's prior, would be compared with that."""
    folder = fitted(METHODS["sparse"]).save(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    assert credo.load(folder).prior == fitted(METHODS["sparse"]).prior
    config["model"]["prior"] = {"kind": "Normal", "scale": 1.0}
    (folder / "config.json").write_text(json.dumps(config))
    assert bool(torch.isfinite(credo.load(folder).kl()).all())


def test_the_prior_that_was_used_comes_back_where_the_model_is_given(tmp_path: Path) -> None:
    """The model that is given has the prior that the method replaced."""
    folder = fitted(METHODS["sparse"]).save(tmp_path / "run")
    model = credo.Model(credo.nets.MLP(3, 1, (4,)), likelihoods.Gaussian(0.5))
    refuses(credo.load(folder, model=model))
    config = json.loads((folder / "config.json").read_text())
    config["model"]["prior"] = {"opaque": "LogUniform"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(credo.StorageError, match=r"found under the prior 'LogUniform', and the model .* has Normal"):
        credo.load(folder, model=model)
    refuses(credo.load(folder, model=model.with_prior(priors.LogUniform())))


@pytest.mark.parametrize("members", [1, 2])
def test_bayes_by_backprop_is_compared_with_the_prior_of_the_model(members: int) -> None:
    posterior = fitted(credo.Ensemble(credo.BayesByBackprop(epochs=1), members))
    assert isinstance(posterior, DiagonalGaussian)
    kl = posterior.model.prior.kl(posterior.mean.params, posterior.scale, posterior.model.network.layout)
    assert kl is not None
    torch.testing.assert_close(posterior.kl(), kl, rtol=1e-5, atol=0.0)  # single precision
    assert len(trust(posterior, DATA, draws=30).k) == members


def test_weights_that_share_noise_have_no_density_to_compare() -> None:
    posterior = fitted(credo.VariationalDropout(epochs=1, correlated=True))
    assert isinstance(posterior, UnitNoise)
    with pytest.raises(ValueError, match=r"density.*posterior\.history"):
        posterior.kl()
