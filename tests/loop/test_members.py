"""An ensemble is its method several times: nothing is forgotten, and a member that diverges takes no other with it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import credo
from credo import likelihoods, nets
from credo.core.rng import Stream
from credo.core.status import Status
from credo.methods import Info, Method, StartFrom, Tick
from credo.methods.point import PointState

X = Stream(8, ("members",)).normal(16, 2)
Y = X.sum(1, keepdim=True)
MODEL = credo.Model(nets.MLP(2, 1, (5,)), likelihoods.Gaussian(0.5))


CALLS: list[tuple[str, tuple[Any, ...]]] = []


class Spy(Method):
    """Answers every attribute with its name, and notes every call."""

    members = 1

    def __getattribute__(self, name: str) -> Any:
        attribute = getattr(Method, name, None)
        if name.startswith("_") or name in ("members", "batch_size") or not hasattr(Method, name):
            return "batch_size" if name == "batch_size" else object.__getattribute__(self, name)
        return (lambda *given: CALLS.append((name, given))) if inspect.isfunction(attribute) else name


Spy.__abstractmethods__ = frozenset()


@pytest.mark.parametrize(
    "name",
    # the number of members is its own, and its posterior leaves out those that diverged
    sorted({"batch_size", *(n for n in dir(Method) if not n.startswith("_"))} - {"members", "posterior"}),
)
def test_an_ensemble_forwards_every_attribute_of_a_method(name: str) -> None:
    answer, attribute = getattr(credo.Ensemble(Spy(), 3), name), getattr(Method, name, None)
    if inspect.isfunction(attribute):
        given = tuple(range(len(inspect.signature(attribute).parameters) - 1))
        answer(*given)
        assert CALLS[-1] == (name, given)
    else:
        assert answer == name


def test_annealing_in_an_ensemble_needs_all_the_data_too() -> None:
    loader = DataLoader(TensorDataset(X, Y), batch_size=4)
    for method in (credo.SimulatedAnnealing(sweeps=5), credo.Ensemble(credo.SimulatedAnnealing(sweeps=5), 2)):
        with pytest.raises(ValueError, match="needs all the data in every step"):
            credo.fit(MODEL, loader, method)


def fates(members: int, *lost: int) -> dict[str, Tensor]:
    """First weights, of which some are too large for float32."""
    each = [dict(nets.MLP(2, 1, (5,)).named_parameters()) for _ in range(members)]
    start = {name: torch.stack([net[name].detach() for net in each]) for name in each[0]}
    for m in lost:
        start["layers.1.weight"][m] = 1e30
    return start


METHODS: dict[str, Any] = {
    "point": lambda m: credo.DeepEnsemble(members=m, epochs=6, batch_size=8),
    "variational": lambda m: credo.Ensemble(credo.BayesByBackprop(epochs=6, batch_size=8), m),
    "dropout": lambda m: credo.Ensemble(credo.MCDropout(epochs=6, batch_size=8, rate=0.1), m),
}
every_method = pytest.mark.parametrize("make", METHODS.values(), ids=METHODS.keys())


@every_method
def test_a_member_that_diverges_is_named_and_left_out(make: Any, tmp_path: Path) -> None:
    start = fates(4, 1)
    with pytest.warns(credo.CredoWarning, match=r"member\(s\) 2 of 4 diverged"):
        posterior = credo.fit(MODEL, (X, Y), make(4), start=start, validation=(X, Y), plan=credo.Plan.TOGETHER)
    assert posterior.record.status is Status.FINISHED
    assert any("member(s) 2 of 4 diverged" in note for note in posterior.notes)
    assert all(len(t) == 3 for name, t in posterior.tensors().items())
    prediction = posterior.predict(X, draws=6)
    assert bool(prediction.mean.isfinite().all())
    assert all(torch.isfinite(torch.tensor(value)) for row in posterior.history for value in row.values())
    assert credo.load(posterior.save(tmp_path)).predict(X, draws=6).mean.shape == (16, 1)


def test_the_others_are_what_they_would_have_been_and_the_history_is_theirs() -> None:
    start, method = fates(3, 2), credo.DeepEnsemble(members=3, epochs=6, batch_size=8)
    with pytest.warns(credo.CredoWarning, match=r"member\(s\) 3 of 3"):
        hurt = credo.fit(MODEL, (X, Y), method, start=start, plan=credo.Plan.ONE_BY_ONE)
    well = credo.fit(
        MODEL,
        (X, Y),
        credo.DeepEnsemble(members=2, epochs=6, batch_size=8),
        start={name: t[:2] for name, t in start.items()},
        plan=credo.Plan.ONE_BY_ONE,
    )
    for name, tensor in well.tensors().items():
        torch.testing.assert_close(hurt.tensors()[name], tensor, rtol=1e-6, atol=1e-7)
    for one, other in zip(hurt.history, well.history, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)  # averages in float32


@every_method
def test_an_ensemble_of_which_no_member_is_left_has_diverged(make: Any) -> None:
    with pytest.warns(credo.CredoWarning, match="diverged in epoch"):
        posterior = credo.fit(MODEL, (X, Y), make(2), start=fates(2, 0, 1))
    assert posterior.record.status is Status.DIVERGED
    assert not any("left out" in note for note in posterior.notes)


def test_a_hurt_ensemble_can_be_resumed(tmp_path: Path) -> None:
    start, method = fates(3, 0), credo.DeepEnsemble(members=3, epochs=6, batch_size=8)
    given = {"start": start, "checkpoint": tmp_path, "resume": True}
    with pytest.warns(credo.CredoWarning, match="left out"), pytest.warns(credo.CredoWarning, match="stopped after"):
        credo.fit(MODEL, (X, Y), method, seconds=1e-9, **given)
    with pytest.warns(credo.CredoWarning, match="left out"):
        resumed = credo.fit(MODEL, (X, Y), method, **given)
    with pytest.warns(credo.CredoWarning, match="left out"):
        whole = credo.fit(MODEL, (X, Y), method, start=start)
    assert all(torch.equal(resumed.tensors()[name], t) for name, t in whole.tensors().items())


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, Status.FINISHED),
        ({"seconds": 1e-9}, Status.OUT_OF_TIME),
        ({"method": credo.MAP(epochs=50, learning_rate=1e30, optimizer=credo.SGD())}, Status.DIVERGED),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
def test_how_a_run_ended_is_a_value(given: dict[str, Any], status: Status) -> None:
    record = credo.fit(MODEL, (X, Y), **{"method": credo.MAP(epochs=3), **given}).record
    assert record.status is status
    assert bool(record.reason) is not record.finished
    assert not record.reason or record.reason in record.notes


@dataclass(frozen=True)
class Still(credo.MAP):
    """Keeps the weights it begins with."""

    start_from: ClassVar[StartFrom] = StartFrom.MODULE
    learning_rate: float = 1e-30
    epochs: int = 1


def test_a_method_may_start_from_the_modules_own_weights() -> None:
    net = nets.MLP(2, 1, (5,))
    with torch.no_grad():
        net.layers[1].weight.fill_(0.25)
    for method in (Still(), credo.Ensemble(Still(), 2)):
        posterior = credo.fit(credo.Model(net, likelihoods.Gaussian(0.5)), (X, Y), method)
        assert bool((posterior.tensors()["variables/params/layers.1.weight"] == 0.25).all())
    fresh = credo.fit(credo.Model(net, likelihoods.Gaussian(0.5)), (X, Y), credo.MAP(epochs=1, learning_rate=1e-30))
    assert not bool((fresh.tensors()["variables/params/layers.1.weight"] == 0.25).any())
    made = credo.fit(
        credo.Model(lambda: nets.MLP(2, 1, (5,)), likelihoods.Gaussian(0.5)), (X, Y), credo.Ensemble(Still(), 2)
    )
    first, second = made.tensors()["variables/params/layers.1.weight"]
    assert not torch.equal(first, second), "a function that makes modules is called for each member"


@dataclass(frozen=True)
class CurvedState:
    point: PointState
    squares: dict[str, Tensor]


@dataclass(frozen=True)
class Curved(Method[CurvedState]):
    """MAP, and in the last pass the sum of squared gradients of each example's log likelihood (linear net, N(., 1))."""

    epochs: int = 3
    batch_size: int | None = 5
    explode: bool = False

    @property
    def _map(self) -> credo.MAP:
        return credo.MAP(epochs=self.epochs, batch_size=self.batch_size, learning_rate=1e300 if self.explode else 1e-2)

    def steps(self, batches: int) -> int:
        return self.epochs * batches

    def init(self, target: credo.Target, variables: credo.Variables, rng: Stream) -> CurvedState:
        zeros = {name: torch.zeros_like(w) for name, w in variables.params.items()}
        return CurvedState(self._map.init(target, variables, rng), zeros)

    def step(
        self, target: credo.Target, state: CurvedState, batch: credo.Batch, tick: Tick
    ) -> tuple[CurvedState, Info]:
        point, info = self._map.step(target, state.point, batch, tick)
        return CurvedState(point, state.squares), info

    def finish(self, target: credo.Target, state: CurvedState, batches: Any, tick: Tick) -> CurvedState:
        assert tick.fraction == 1.0
        squares = dict(state.squares)
        for batch in batches:
            for b in range(batch.examples):
                params = {name: w.detach().requires_grad_() for name, w in state.point.variables.params.items()}
                one = batch.rows(b, b + 1)
                value = target.log_likelihood(credo.Variables(params, {}), one)
                gradients = torch.autograd.grad(value.sum(), list(params.values()))
                squares = {name: squares[name] + g.square() for name, g in zip(params, gradients, strict=True)}
        return CurvedState(state.point, squares)

    def current(self, state: CurvedState) -> credo.Variables:
        return state.point.variables

    def posterior(self, target: credo.Target, state: CurvedState) -> credo.Posterior:
        scale = {name: s for name, s in state.squares.items() if bool(s.any())}
        return credo.posteriors.DiagonalGaussian(target.model, state.point.variables, scale)


LINE = credo.Model(torch.nn.Linear(2, 1, bias=False, dtype=torch.float64), likelihoods.Gaussian(1.0))
X64, Y64 = X.double(), Y.double()


def exact_squares(posterior: credo.Posterior) -> Tensor:
    """sum_n ((y_n - w x_n) x_n)^2, (M, 1, 2)."""
    weights = posterior.tensors()["mean/params/weight"]  # (M, 1, 2)
    return torch.stack([((Y64 - X64 @ w.mT) * X64).square().sum(0, keepdim=True) for w in weights])


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("loader", [False, True], ids=["table", "loader"])
def test_the_last_pass_sees_every_example_once_at_the_last_weights(members: int, loader: bool) -> None:
    data = DataLoader(TensorDataset(X64, Y64), batch_size=5, shuffle=True) if loader else (X64, Y64)
    posterior = credo.fit(LINE, data, Curved() if members == 1 else credo.Ensemble(Curved(), members))
    squares = posterior.tensors()["scale/weight"]
    torch.testing.assert_close(squares, exact_squares(posterior), rtol=1e-12, atol=1e-12)
    twice = 2.0 * exact_squares(posterior)
    assert not torch.allclose(squares, twice), "a broken twin that passes twice is told apart"


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
def test_no_last_pass_for_a_run_that_was_stopped_or_diverged() -> None:
    for given in ({"seconds": 1e-9}, {"method": Curved(explode=True)}):
        posterior = credo.fit(LINE, (X64, Y64), **{"method": Curved(epochs=50), **given})
        assert not posterior.record.finished
        assert "scale/weight" not in posterior.tensors()


class Killed(BaseException):
    """As by a signal, in the middle of the last pass."""


def test_a_run_killed_or_interrupted_in_the_last_pass_makes_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = credo.fit(LINE, (X64, Y64), Curved())
    plain = credo.Batch.rows

    def dies(self: credo.Batch, start: int, stop: int) -> credo.Batch:
        raise Killed

    monkeypatch.setattr(credo.Batch, "rows", dies)
    with pytest.raises(Killed):
        credo.fit(LINE, (X64, Y64), Curved(), checkpoint=tmp_path)
    loops: list[Any] = []
    made = credo.loop.run.Loop.__init__

    def remember(self: Any, *given: Any) -> None:
        loops.append(self)
        made(self, *given)

    monkeypatch.setattr(credo.loop.run.Loop, "__init__", remember)

    def over(self: credo.Batch, start: int, stop: int) -> credo.Batch:
        loops[-1].begin -= 1e6
        return plain(self, start, stop)

    monkeypatch.setattr(credo.Batch, "rows", over)
    with pytest.warns(credo.CredoWarning, match="in the last pass over the data: the result is what there was before"):
        cut = credo.fit(LINE, (X64, Y64), Curved(), checkpoint=tmp_path, resume=True, seconds=1e4)
    assert cut.record.status is Status.OUT_OF_TIME
    assert "scale/weight" not in cut.tensors()
    monkeypatch.undo()
    resumed = credo.fit(LINE, (X64, Y64), Curved(), checkpoint=tmp_path, resume=True)
    assert resumed.record.finished
    assert all(torch.equal(resumed.tensors()[name], t) for name, t in whole.tensors().items())


def test_history_has_the_loss_and_validation_the_accuracy() -> None:
    labels = (X[:, 0] > 0).long()
    two = credo.Model(nets.MLP(2, 2, (5,)), likelihoods.Categorical())
    posterior = credo.fit(two, (X, labels), credo.DeepEnsemble(members=2, epochs=30), validation=(X, labels))
    last = posterior.history[-1]
    assert last["loss"] == pytest.approx(-last["log_likelihood"] - last["log_prior"], rel=1e-6)
    right = (posterior.predict(X).label == labels).double().mean().item()
    assert last["validation_accuracy"] == pytest.approx(right)
    assert "validation_accuracy" not in credo.fit(MODEL, (X, Y), credo.MAP(epochs=1), validation=(X, Y)).history[-1]
    learned = credo.fit(MODEL, (X, Y), credo.BayesByBackprop(epochs=2)).history[-1]
    assert learned["loss"] == pytest.approx(learned["kl"] - learned["log_likelihood"], rel=1e-6)


class Squared(torch.nn.Module):
    """Outputs that are not finite while the weight is."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([weight]))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight.square().expand(len(x), 1)


def test_a_member_of_annealing_that_never_has_a_density_is_named_and_left_out() -> None:
    weights = iter([0.3, 0.3, 0.3, 1e30, 0.3])  # the first is looked at to learn the structure
    method = credo.Ensemble(credo.SimulatedAnnealing(sweeps=30), members=4)
    with pytest.warns(credo.CredoWarning, match=r"member\(s\) 3 of 4 diverged"):
        posterior = credo.fit(
            credo.Model(lambda: Squared(next(weights)), likelihoods.Gaussian(1.0)), (X, torch.zeros(16, 1)), method
        )
    draws = posterior.predict(X).draws
    assert len(draws) == 3
    assert bool(draws.isfinite().all())
