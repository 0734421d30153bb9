"""The worked example of CONTRIBUTING: one module is a method that fits, resumes, saves, loads and makes ensembles."""

from __future__ import annotations

import doctest
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

import credo
from credo.methods.base import Tick

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "docs" / "examples" / "running_moments.py"
X = torch.linspace(-1, 1, 40, dtype=torch.float64)[:, None]
Y = X.sin() + 0.3 * credo.Stream(0).normal(40, 1).double()


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("running_moments", MODULE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["running_moments"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["running_moments"]


def model() -> credo.Model:
    return credo.Model(torch.nn.Linear(1, 1).double(), credo.likelihoods.Gaussian(0.3))


def iterates(method: credo.Method, steps: int) -> tuple[list[Tensor], credo.Posterior]:
    """All weights of a run that is stepped by hand, and its posterior."""
    target, weights = credo.Target(model(), size=40), []
    state = method.init(target, target.model.network.initial(2, credo.Stream(1)), credo.Stream(2))
    for step in range(steps):
        some = credo.Stream(3, (step,)).permutation(40)[:8]
        state, _ = method.step(target, state, credo.Batch(X[some], Y[some]), Tick(step, steps, credo.Stream(4)))
        weights.append(method.current(state).params["weight"].clone())
    return weights, method.posterior(target, state)


@pytest.mark.parametrize("burn_in", [0.0, 0.5])
def test_mean_and_scale_are_those_of_the_iterates_after_burn_in(example: ModuleType, burn_in: float) -> None:
    weights, posterior = iterates(example.RunningMoments(epochs=1, learning_rate=0.1, burn_in=burn_in), 30)
    counted = torch.stack(weights[round(30 * burn_in) :])
    torch.testing.assert_close(posterior.mean.params["weight"], counted.mean(0))
    torch.testing.assert_close(posterior.scale["weight"], counted.std(0, correction=0))
    twin = torch.stack(weights[15 - round(30 * burn_in) :])  # counts the other part of the run
    assert not torch.allclose(posterior.mean.params["weight"], twin.mean(0))


def fit(method: credo.Method, **wishes: object) -> credo.Posterior:
    return credo.fit(model(), (X, Y), method, progress=False, **wishes)  # type: ignore[arg-type]


def test_a_run_that_was_stopped_resumes_to_the_same_bits(example: ModuleType, tmp_path: Path) -> None:
    method = example.RunningMoments(epochs=10, batch_size=8)
    whole = fit(method)

    class StoppedError(Exception):
        pass

    def stop(report: object) -> None:
        if report.step >= 30:  # type: ignore[attr-defined]
            raise StoppedError

    checkpoint = credo.Checkpoint(tmp_path / "run", seconds=0.0)
    with pytest.raises(StoppedError):
        credo.fit(model(), (X, Y), method, progress=stop, checkpoint=checkpoint)
    resumed = fit(method, checkpoint=checkpoint, resume=True)
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, resumed.tensors()[name]), name


def test_an_ensemble_is_saved_and_loaded(example: ModuleType, tmp_path: Path) -> None:
    posterior = fit(credo.Ensemble(example.RunningMoments(epochs=10, batch_size=8), members=3))
    assert posterior.mean.members == 3  # type: ignore[attr-defined]
    posterior.save(tmp_path / "run")
    loaded = credo.load(tmp_path / "run", net=model().network.module)
    assert torch.equal(posterior.predict(X, draws=6, seed=1).draws, loaded.predict(X, draws=6, seed=1).draws)
    assert float(posterior.predict(X).epistemic.mean()) > 0.0


def test_its_options_are_checked_and_its_example_runs(example: ModuleType) -> None:
    with pytest.raises(ValueError, match="burn_in must"):
        example.RunningMoments(burn_in=2.0)
    with pytest.raises(TypeError, match="epochs must"):
        replace(example.RunningMoments(), epochs="ten")
    result = doctest.testmod(example, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 2
    assert result.failed == 0


def test_contributing_shows_the_module_as_it_is() -> None:
    source = MODULE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        for line in block.splitlines():
            assert not line.strip() or line.strip() == "..." or line.strip() in source, line
