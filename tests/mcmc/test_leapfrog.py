"""The integrator's identities, in double precision, each with a wrong integrator that it tells from the right one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from credo.methods.mcmc.integrators import (
    ChainState,
    DenseMetric,
    DiagonalMetric,
    Metric,
    bend,
    isokinetic_step,
    leapfrog,
    refresh,
)

METRICS: dict[str, Metric] = {
    "diagonal": DiagonalMetric(torch.tensor([0.5, 2.0]).double()),
    "dense": DenseMetric(torch.tensor([[0.7, 0.0], [1.1, 0.5]]).double()),
}
every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
START, PUSH = torch.tensor([[0.3, 1.2], [-1.0, 0.5]]).double(), torch.tensor([[0.8, -0.4], [0.1, 1.5]]).double()


def without_first_half_step(density, chains, momentum, step, metric, count=1):
    for _ in range(count):
        position = metric.drift(chains.position, momentum, step)
        chains = ChainState.at(position, density)
        momentum = metric.kick(momentum, chains.gradient, step)
    return chains, momentum


def with_friction(density, chains, momentum, step, metric, count=1):
    return leapfrog(density, chains, 0.99 * momentum, step, metric, count)


def there_and_back(integrate: Callable, law: Callable, metric: Metric) -> Tensor:
    """How far from the start one is after five steps, a turn, and five steps."""
    end, momentum = integrate(law, ChainState.at(START, law), PUSH, 0.1, metric, 5)
    back, _ = integrate(law, end, -momentum, 0.1, metric, 5)
    return (back.position - START).abs().max()


@every_metric
def test_the_way_back_is_the_way_forth(metric: Metric, law: Callable) -> None:
    assert there_and_back(leapfrog, law, metric) < 1e-12
    assert there_and_back(without_first_half_step, law, metric) > 1e-3
    assert there_and_back(with_friction, law, metric) > 1e-3


@every_metric
def test_volume_is_preserved(metric: Metric, law: Callable) -> None:
    def determinant(integrate: Callable) -> Tensor:
        def flow(point: Tensor) -> Tensor:
            chains, momentum = integrate(law, ChainState.at(point[None, :2], law), point[None, 2:], 0.3, metric, 3)
            return torch.cat([chains.position[0], momentum[0]])

        return torch.linalg.det(torch.autograd.functional.jacobian(flow, torch.cat([START[0], PUSH[0]])))

    torch.testing.assert_close(determinant(leapfrog), torch.tensor(1.0).double())
    assert (determinant(with_friction) - 1.0).abs() > 1e-3


def order(error: Callable[[float], Tensor]) -> float:
    """The order at which an error falls with the step."""
    return float(torch.log2(error(0.02) / error(0.01)))


@every_metric
def test_the_energy_error_is_of_order_two(metric: Metric, law: Callable) -> None:
    def error(step: float, integrate: Callable = leapfrog) -> Tensor:
        start = ChainState.at(START, law)
        end, momentum = integrate(law, start, PUSH, step, metric, round(0.8 / step))
        return (end.energy(momentum) - start.energy(PUSH)).abs().max()

    assert order(error) == pytest.approx(2.0, abs=0.1)  # the next order adds a few hundredths at these steps
    assert order(lambda step: error(step, without_first_half_step)) < 1.3


def test_a_step_with_a_metric_is_a_plain_step_in_white_coordinates(law: Callable) -> None:
    factor = METRICS["dense"].factor

    def white(z: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = law(z @ factor.T)
        return value, gradient @ factor

    one = DiagonalMetric(torch.ones(2).double())
    z = torch.linalg.solve_triangular(factor, START.T, upper=False).T
    plain, r = leapfrog(white, ChainState.at(z, white), PUSH, 0.1, one, 4)
    ours, s = leapfrog(law, ChainState.at(START, law), PUSH, 0.1, METRICS["dense"], 4)
    torch.testing.assert_close(ours.position, plain.position @ factor.T)
    torch.testing.assert_close(s, r)
    torch.testing.assert_close(METRICS["dense"].whiten(START), z)


def test_bending_is_the_closed_form_solution() -> None:
    """du/dt = (1 - u u^T) f / (P - 1) and dK/dt = f.u, by many small Euler steps."""
    u = torch.tensor([[0.6, 0.8, 0.0]]).double()
    f = torch.tensor([[1.0, -2.0, 0.7]]).double()
    bent, rise = bend(u, f, 0.9)
    steps, slow, energy = 4_000, u.clone(), 0.0
    for _ in range(steps):
        energy += float((f * slow).sum()) * 0.9 / steps
        slow = slow + (f - slow * (slow * f).sum()) / 2.0 * (0.9 / steps)
        slow = slow / slow.norm()
    torch.testing.assert_close(bent, slow, rtol=0, atol=1e-3)  # Euler's error at this step
    assert float(rise) == pytest.approx(energy, abs=1e-3)  # likewise
    assert float(bent.norm()) == pytest.approx(1.0)


@every_metric
def test_gliding_is_reversible_and_of_order_two(metric: Metric, law: Callable) -> None:
    start = ChainState.at(START, law)
    u = PUSH / PUSH.norm(dim=1, keepdim=True)
    end, direction, change = isokinetic_step(law, start, u, 0.1, metric)
    back, _, again = isokinetic_step(law, end, -direction, 0.1, metric)
    torch.testing.assert_close(back.position, START)
    torch.testing.assert_close(again, -change)

    def error(step: float) -> Tensor:
        chains, direction, total = start, u, torch.zeros(2).double()
        for _ in range(round(0.8 / step)):
            chains, direction, change = isokinetic_step(law, chains, direction, step, metric)
            total = total + change
        return total.abs().max()

    assert order(error) == pytest.approx(2.0, abs=0.1)  # the next order adds a few hundredths at these steps


@every_metric
def test_the_energy_holds_the_volume_that_isokinetic_steps_stretch(metric: Metric, law: Callable) -> None:
    """exp(-W) = p(q') / p(q) |det d(q', u') / d(q, u)|, with u an angle: what makes a test of acceptance exact."""
    start, angle = ChainState.at(START[:1], law), torch.tensor([0.4]).double()

    def flow(point: Tensor) -> Tensor:
        u = torch.stack([point[2].cos(), point[2].sin()])[None]
        end, direction, _ = isokinetic_step(law, ChainState.at(point[None, :2], law), u, 0.4, metric)
        return torch.cat([end.position[0], torch.atan2(direction[:, 1], direction[:, 0])])

    jacobian = torch.autograd.functional.jacobian(flow, torch.cat([START[0], angle]))
    u = torch.stack([angle.cos(), angle.sin()], dim=1)
    end, _, change = isokinetic_step(law, start, u, 0.4, metric)
    ratio = end.log_density - start.log_density + torch.linalg.det(jacobian).abs().log()
    torch.testing.assert_close(-change, ratio)
    assert float((ratio - end.log_density + start.log_density).abs()) > 0.01, "it is stretched"


def test_directions_are_forgotten_over_the_length_that_was_asked_for() -> None:
    """E[u0.ut] = exp(-t / length), to a few standard errors over 20,000 chains in fifty dimensions."""
    generator = torch.Generator().manual_seed(0)
    u = torch.zeros(20_000, 50).double()
    u[:, 0] = 1.0
    now = u
    for _ in range(20):
        now = refresh(now, torch.randn(u.shape, generator=generator).double(), 0.1, 2.0)
    overlap = float((now * u).sum(1).mean())
    assert overlap == pytest.approx(2.718281828**-1.0, abs=0.02)  # noise 0.001, and 1 / P corrections
