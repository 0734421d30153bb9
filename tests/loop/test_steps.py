"""Recording a step is by consent, and the first replays are compared with launched steps; by a fake on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch

import credo
from credo import likelihoods, nets
from credo.core.rng import Stream
from credo.loop.graphs import Generators, Launch
from credo.methods import Info, Method, Tick
from credo.methods.vi.objective import WarmUp

X = Stream(8, ("steps",)).normal(21, 2)
Y = X.sum(1, keepdim=True)
MODEL = credo.Model(nets.MLP(2, 1, (5,)), likelihoods.LearnedGaussian())


class Fake:
    """Records as a CUDA graph does: all that plain Python computes stays as it was; generators and tensors do not."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, trial: Launch, step: Launch, generators: Generators, device: torch.device) -> Launch:
        self.recorded += 1
        trial()

        def replay() -> Info:
            self.replayed += 1
            return step()

        return replay


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake()
    monkeypatch.setattr("credo.loop.run.recorder_for", lambda device: made)
    return made


def fit(method: Method, **given: Any) -> credo.Posterior:
    return credo.fit(MODEL, (X, Y), method, seed=3, plan=credo.Plan.TOGETHER, **given)


def bits(posterior: credo.Posterior) -> list[torch.Tensor]:
    return list(posterior.tensors().values())


NUMBERS = {"epochs": 60, "batch_size": 10}
SAFE: dict[str, Method] = {
    "map": credo.MAP(**NUMBERS, schedule=credo.Cosine()),
    "ensemble": credo.DeepEnsemble(members=2, **NUMBERS, schedule=credo.Cosine()),
    "mc dropout": credo.MCDropout(rate=0.2, **NUMBERS, schedule=credo.Cosine()),
    "variational": credo.BayesByBackprop(**NUMBERS, schedule=credo.Cosine(), annealing=WarmUp()),
    "black box": credo.BlackBoxVI(**NUMBERS),
    "sgld": credo.SGLD(**NUMBERS, draws=20, chains=2, preconditioner=credo.RMSPreconditioner()),
    "cyclical": credo.SGHMC(**NUMBERS, draws=20, schedule=credo.Cyclical(cycles=2)),
    "metropolis": credo.Metropolis(draws=60, warmup=60, chains=2),
    "annealing": credo.SimulatedAnnealing(sweeps=120),
}


@pytest.mark.parametrize("method", SAFE.values(), ids=SAFE.keys())
def test_methods_that_consent_are_replayed_and_replays_are_their_steps(
    method: Method, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = fit(method)
    assert fake.replayed > 100, replayed.notes
    assert not any("launched one kernel at a time" in note for note in replayed.notes)
    monkeypatch.undo()
    launched = fit(method)
    for one, other in zip(bits(replayed), bits(launched), strict=True):
        # scheduled numbers are single precision where steps are recorded, double elsewhere
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)


@dataclass(frozen=True)
class Stepping(credo.MAP):
    """A learning rate that is a plain number of the step: what a recording freezes."""

    period: int = 0

    def step(self, target: Any, state: Any, batch: Any, tick: Tick) -> tuple[Any, Info]:
        late = tick.step % self.period / self.period if self.period else tick.fraction
        rate = 0.01 * (1.0 - 0.9 * late)
        frozen = credo.MAP(epochs=self.epochs, batch_size=self.batch_size, learning_rate=rate)
        return frozen.step(target, state, batch, tick)


@dataclass(frozen=True)
class Claiming(Stepping):
    graph_safe: ClassVar[bool] = True


def test_a_class_that_changes_the_step_must_consent_for_itself(fake: Fake) -> None:
    assert all(each.graph_safe for each in (credo.MAP, Claiming, credo.Ensemble(Claiming(), 2)))
    assert not any(each.graph_safe for each in (Stepping, Method, credo.Ensemble(Stepping(), 2)))
    fit(Stepping(**NUMBERS))
    assert fake.recorded == 0


@pytest.mark.parametrize("period", [0, 2, 3])
def test_who_consents_wrongly_is_found_out_and_loses_nothing(period: int, fake: Fake) -> None:
    method = Claiming(**NUMBERS, period=period)
    caught = fit(method)
    assert 1 <= fake.replayed <= 2
    assert any("Claiming does not repeat the steps: it may read tick.step" in note for note in caught.notes)
    plain = fit(Stepping(**NUMBERS, period=period))
    assert all(torch.equal(one, other) for one, other in zip(bits(caught), bits(plain), strict=True))


def test_the_broken_twin_without_a_comparison_is_frozen(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("credo.loop.graphs.CHECKED", 0)
    monkeypatch.setattr("credo.loop.graphs._Recording.__init__.__defaults__", (0,))
    frozen, plain = fit(Claiming(**NUMBERS)), fit(Stepping(**NUMBERS))
    assert fake.replayed == 180
    assert not torch.allclose(bits(frozen)[0], bits(plain)[0], rtol=1e-3)


def test_what_cannot_be_recorded_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*given: Any) -> Launch:
        raise RuntimeError("no capture here")

    monkeypatch.setattr("credo.loop.run.recorder_for", lambda device: refuses)
    posterior = fit(credo.MAP(**NUMBERS))
    assert any("cannot be recorded (no capture here)" in note for note in posterior.notes)
    monkeypatch.undo()
    assert all(torch.equal(a, b) for a, b in zip(bits(posterior), bits(fit(credo.MAP(**NUMBERS))), strict=True))


def test_nothing_is_recorded_on_a_cpu_or_in_a_short_run(fake: Fake) -> None:
    fit(credo.MAP(epochs=30, batch_size=10))
    assert fake.recorded == 0, "a short run"
    assert credo.loop.graphs.recorder_for(torch.device("cpu")) is None


def test_weights_and_batches_of_two_sizes_are_replayed(fake: Fake) -> None:
    fit(credo.MAP(epochs=80, batch_size=11))  # 21 rows: 10 and 11
    assert fake.recorded == 2
