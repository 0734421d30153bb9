"""The sine of the TEK5040 assignment."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import credo
from credo.core.threads import one_thread
from credo.experiments import registry
from credo.experiments.base import Progress, Size, Verdict
from credo.experiments.runs import Run, perform
from credo.experiments.sine.measure import coverage, measure, variation
from credo.experiments.sine.problem import (
    BAYES_BY_BACKPROP,
    MC_DROPOUT,
    START_SCALE,
    SineProblem,
    SineSetup,
    keras_net,
    setups,
    sine,
    variational_net,
)

PROBLEM = SineProblem.of(0)
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("sine")
    return perform(registry.load("sine"), Size.QUICK, folder, 0, Progress()), folder


def test_quick_run_passes_its_claims(done: tuple[Run, Path]) -> None:
    assert {j.claim.id: j.verdict for j in done[0].judged if j.verdict is not Verdict.AGREES} == {}


def test_every_method_has_a_row_and_a_picture(done: tuple[Run, Path]) -> None:
    run, folder = done
    labels = [setup.label for setup in setups(Size.QUICK)]
    assert [row[0] for row in run.tables[0].rows] == labels
    for figure in run.figures:
        assert (folder / figure.path).read_bytes().startswith(PNG)
        assert len(figure.caption) > 20
    assert {f"sine-{setup.name}.png" for setup in setups(Size.QUICK)} < {figure.path for figure in run.figures}


def test_maximum_likelihood_has_no_epistemic_part(done: tuple[Run, Path]) -> None:
    label, draws, _, *spreads = done[0].tables[0].rows[0][:6]
    assert (label, draws, spreads) == ("Maximum likelihood", 1, [0.0, 0.0, 0.0])


def test_data_are_those_of_the_assignment() -> None:
    assert PROBLEM.x.shape == PROBLEM.y.shape == (32, 1)
    assert (PROBLEM.x.min(), PROBLEM.x.max()) == (-0.5, 0.5)
    assert PROBLEM.grid.shape == (1500, 1)
    assert (PROBLEM.grid.min(), PROBLEM.grid.max()) == (-1.5, 1.5)
    zones = torch.stack([PROBLEM.inside, PROBLEM.near, PROBLEM.far])
    assert bool((zones.sum(0) == 1).all())
    assert sine(torch.tensor(0.25)) == pytest.approx(10.0, abs=1e-5)  # float32
    noise = torch.cat([SineProblem.of(seed).y - sine(PROBLEM.x) for seed in range(100)]).double()
    squares = float(noise.square().sum())
    assert abs(squares - 3200) < 4.9 * math.sqrt(2 * 3200)  # chi-square of 3200: a false alarm once in a million


def test_the_numbers_of_the_assignment() -> None:
    by_name = {setup.name: setup for setup in setups(Size.FULL)}
    dropout, variational = by_name[MC_DROPOUT], by_name[BAYES_BY_BACKPROP]
    assert isinstance(dropout.method, credo.MCDropout)
    numbers = (dropout.method.rate, dropout.method.learning_rate, dropout.method.epochs, dropout.method.batch_size)
    assert (*numbers, dropout.draws) == (0.1, 0.08, 5000, None, 500)
    assert isinstance(variational.method, credo.BayesByBackprop)
    assert (variational.method.learning_rate, variational.method.epochs, variational.draws) == (0.08, 1500, 500)
    assert variational.method.initial_scale == pytest.approx(math.log(1 + math.exp(0.0)), abs=1e-15)
    assert variational.prior == credo.priors.ScaleMixture(0.5, 1.5, 0.1)
    assert pytest.approx(1.063, abs=5e-4) == START_SCALE  # three digits are what the assignment's code prints
    assert sum(p.numel() for p in variational_net().parameters()) == 481


def test_first_weights() -> None:
    with credo.Stream(0, ("test",)).borrowed_global():
        wide = torch.cat([p.detach().flatten() for _ in range(20) for p in variational_net().parameters()]).double()
        net = keras_net()
    squares = float((wide / START_SCALE).square().sum())
    assert abs(squares - len(wide)) < 4.9 * math.sqrt(2 * len(wide))  # as above, once in a million
    assert all(bool((p == 0).all()) == name.endswith("bias") for name, p in net.named_parameters())


def cone(slope: float, wiggle: float = 0.0) -> Tensor:
    """Two drawn functions around the sine whose standard deviation is 1 inside and grows by the slope outside."""
    distance = (PROBLEM.grid.squeeze(1).abs().double() - 0.5).clamp_min(0.0)
    spread = 1.0 + slope * distance + wiggle * torch.sin(200 * distance)
    truth = PROBLEM.truth.double()
    return torch.stack([truth - spread, truth + spread])


def test_measures_of_a_perfect_cone() -> None:
    found = measure(PROBLEM, cone(slope=4.0))
    assert found.rmse == pytest.approx(0.0, abs=1e-5)  # the truth is float32
    assert found.inside == pytest.approx(1.0, abs=1e-6)
    assert found.near == pytest.approx(2.0, abs=0.01)  # the grid is no integral
    assert found.far == pytest.approx(4.0, abs=0.01)
    assert found.outward == 1.0
    assert found.growth == pytest.approx(2.0, abs=0.01)


def test_measures_tell_a_cone_from_its_twins() -> None:
    assert measure(PROBLEM, cone(slope=-0.5)).outward == 0.0
    assert measure(PROBLEM, cone(slope=-0.5)).growth < 1.0
    assert 0.3 < measure(PROBLEM, cone(slope=1.0, wiggle=0.3)).outward < 0.7
    one_sided = cone(slope=4.0)
    one_sided[:, PROBLEM.grid.squeeze(1) > 0] = cone(slope=-0.5)[:, PROBLEM.grid.squeeze(1) > 0]
    assert measure(PROBLEM, one_sided).outward == 0.5


def test_coverage_is_exact() -> None:
    truth = PROBLEM.truth.double()
    assert coverage(PROBLEM, truth - 1.959963984540054, truth + 1.959963984540054) == pytest.approx(0.95, abs=1e-6)
    assert coverage(PROBLEM, truth, truth + 100.0) == pytest.approx(0.5, abs=1e-6)


def test_variation_is_free_of_units() -> None:
    assert variation([1.0, 2.0, 3.0]) == pytest.approx(0.5)
    assert variation([10.0, 20.0, 30.0]) == pytest.approx(0.5)


@pytest.mark.parametrize("name", [MC_DROPOUT, BAYES_BY_BACKPROP])
def test_draws_are_dealt_to_the_runs_in_turn(name: str) -> None:
    setup: SineSetup = next(setup for setup in setups(Size.QUICK) if setup.name == name)
    setup = replace(setup, method=replace(setup.method, epochs=2)).repeated(3)  # type: ignore[type-var]
    posterior = credo.fit(setup.model, (PROBLEM.x, PROBLEM.y), setup.method, seed=0, progress=False)
    if name == MC_DROPOUT:  # with nothing dropped, a draw is the run that it belongs to
        none = {site.name: torch.zeros(3, 1, 1) for site in posterior.model.network.sites}
        each = posterior.at_mean().predict(PROBLEM.grid).draws
        torch.testing.assert_close(replace(posterior, rates=none).draw(30)(PROBLEM.grid), each.repeat(10, 1, 1))
        return
    weights = posterior.draw(30).variables.params["layers.1.weight"]  # (30, 20, 1)
    centers = posterior.members().params["layers.1.weight"]  # (3, 20, 1)
    nearest = (weights.unsqueeze(1) - centers).square().sum((2, 3)).argmin(1)  # (30,)
    # drawn around the center of the run, so the nearest is the right one in most draws
    assert float((nearest == torch.arange(30) % 3).double().mean()) > 0.6


def test_one_thread_gives_back_the_others() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
