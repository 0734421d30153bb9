"""What warm-up learns: windows, metrics, step sizes and lengths of trajectories."""

from __future__ import annotations

import math

import pytest
import torch

from credo.methods.mcmc.hamiltonian import hamiltonian_trajectory
from credo.methods.mcmc.hmc import LengthSearch, chees_gradient, van_der_corput
from credo.methods.mcmc.integrators import ChainState, DenseMetric, DiagonalMetric
from credo.methods.mcmc.mclmc import EnergySearch
from credo.methods.mcmc.warmup import DualAveraging, Moments, early_windows, plausible_step, stan_windows


@pytest.mark.parametrize("warmup", [0, 1, 5, 19, 20, 21, 50, 149, 150, 151, 300, 1000, 2345])
@pytest.mark.parametrize("schedule", [stan_windows, early_windows])
def test_windows_lie_in_warm_up_and_leave_time_for_the_step(schedule, warmup: int) -> None:
    windows = schedule(warmup)
    starts = [windows.begin, *(end + 1 for end in windows.ends[:-1])]
    sizes = [end - start + 1 for start, end in zip(starts, windows.ends, strict=False)]
    assert all(size >= 1 for size in sizes)
    assert sizes == sorted(sizes)
    assert not windows.ends or windows.ends[-1] < warmup - 1
    assert not windows.collects(warmup)


def test_moments_are_those_of_the_pooled_chains() -> None:
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(50, 4, 3, generator=generator).double() @ torch.tensor(
        [[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 0.1]]
    ).double() + 100.0 * torch.arange(4).double().view(1, 4, 1)  # chains far apart, which must not count as spread
    within = (steps - steps.mean(0)).reshape(-1, 3)
    covariance = within.T @ within / (200 - 4)
    diagonal, dense = Moments.none(steps[0], dense=False), Moments.none(steps[0], dense=True)
    for position in steps:
        diagonal, dense = diagonal.updated(position), dense.updated(position)
    shrink, ridge = 200 / 205, 1e-3 * 5 / 205
    found, full = diagonal.metric(), dense.metric()
    assert isinstance(found, DiagonalMetric)
    assert isinstance(full, DenseMetric)
    torch.testing.assert_close(found.scale.square(), covariance.diagonal() * shrink + ridge)
    torch.testing.assert_close(full.factor @ full.factor.T, covariance * shrink + ridge * torch.eye(3).double())


def test_a_window_that_saw_nothing_move_gives_a_metric_all_the_same() -> None:
    for dense in (False, True):
        moments = Moments.none(torch.zeros(2, 3).double(), dense=dense)
        for _ in range(3):
            moments = moments.updated(torch.ones(2, 3).double())
        metric = moments.metric()
        assert bool(metric.drift(torch.zeros(2, 3).double(), torch.ones(2, 3).double(), 1.0).isfinite().all())


def test_dual_averaging_finds_the_step_of_a_known_acceptance() -> None:
    """Acceptance exp(-step) with a little noise is 0.8 at the step -log 0.8."""
    search, generator = DualAveraging.around(3.0), torch.Generator().manual_seed(1)
    for _ in range(500):
        noise = 0.1 * float(torch.randn((), generator=generator))
        search = search.updated(min(1.0, max(0.0, math.exp(-search.step) + noise)), 0.8)
    assert search.settled == pytest.approx(-math.log(0.8), rel=0.1)  # an average of noisy iterates
    assert search.ended().step == search.settled


@pytest.mark.parametrize("first", [1e-6, 1.0, 1e5])
def test_a_plausible_step_brackets_the_wished_acceptance(first: float) -> None:
    step = plausible_step(lambda size: math.exp(-size), first, 0.8)
    assert math.exp(-step) > 0.8 > math.exp(-2.0 * step)


def test_a_density_that_accepts_nothing_ends_the_search_for_a_step() -> None:
    assert plausible_step(lambda size: 0.0, 1.0, 0.8) > 0.0


def test_the_energy_search_finds_the_step_of_a_known_error() -> None:
    """(change of energy)^2 / P = step^6 times noise with mean one: 5e-4 at its sixth root. Nonsense halves the step."""
    search, generator = EnergySearch.around(0.01), torch.Generator().manual_seed(2)
    for _ in range(600):
        noise = float(torch.empty(()).exponential_(generator=generator))
        search = search.updated(search.step**6 * noise, 5e-4)
    assert search.step == pytest.approx(5e-4 ** (1 / 6), rel=0.1)  # an average over 150 noisy steps
    assert search.updated(math.nan, 5e-4).step == search.step / 2
    assert search.updated(math.inf, 5e-4).step == search.step / 2


def test_the_length_of_trajectories_is_that_of_a_quarter_swing() -> None:
    """On independent normals of scale one the criterion is largest at sin^2 t = 1."""

    def normal(q):
        return -0.5 * q.square().sum(1), -q

    metric, generator = DiagonalMetric(torch.ones(20).double()), torch.Generator().manual_seed(3)
    search = LengthSearch.around(0.3)
    for _ in range(400):
        q, r = torch.randn(2, 16, 20, generator=generator, dtype=torch.float64)
        count = max(1, round(search.length / 0.1))
        end = hamiltonian_trajectory(normal, ChainState.at(q, normal), r, 0.1, metric, count)
        search = search.updated(chees_gradient(q, end.end.position, end.velocity, end.acceptance, count * 0.1))
    assert search.ended().length == pytest.approx(0.5 * math.pi, rel=0.1)  # noisy ascent
    assert search.updated(math.nan) is search


def test_an_iteration_before_the_first_is_refused_and_does_not_hang() -> None:
    with pytest.raises(ValueError, match="no iteration -4"):
        van_der_corput(-4)
