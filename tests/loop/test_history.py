"""What a run tells: history, validation and progress."""

from __future__ import annotations

import io
import itertools
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import credo
from credo import likelihoods, nets
from credo.core.rng import Stream
from credo.loop.batches import tensor_source
from credo.loop.history import History
from credo.loop.progress import ProgressLine, Report, Throttle, clock, listener, progress_text
from credo.methods.base import Info, Tick

N = 22
X = Stream(6, ("history",)).normal(N, 2)
Y = X.sum(1, keepdim=True)
MODEL = credo.Model(nets.MLP(2, 1, (5,)), likelihoods.LearnedGaussian())


def test_rows_are_averages_over_steps_and_members() -> None:
    method = credo.DeepEnsemble(members=3, epochs=4, batch_size=6)
    posterior = credo.fit(MODEL, (X, Y), method, seed=3, plan=credo.Plan.TOGETHER)

    streams = Stream(3)
    model = credo.Model(MODEL.network, MODEL.likelihood)
    target = credo.Target(model, N)
    variables = model.complete(model.network.initial(3, streams.child("init")), 1)
    state = method.init(target, variables, streams.child("state"))
    source = tensor_source(
        (X, Y),
        batch_size=6,
        members=3,
        order=streams.child("order"),
        device=torch.device("cpu"),
        dtype=torch.float32,
    )
    batches, infos = source.steps(0), []
    for step in range(16):
        state, info = method.step(target, state, next(batches), Tick(step, 16, streams.child("noise", step)))
        infos.append({name: value.double().mean().item() for name, value in info.items()})
    for epoch, row in enumerate(posterior.history):
        for name in infos[0]:
            by_hand = sum(info[name] for info in infos[4 * epoch : 4 * epoch + 4]) / 4
            assert row[name] == pytest.approx(by_hand, rel=1e-5)  # the history adds up in float32


def test_a_number_that_some_steps_report_is_averaged_over_these() -> None:
    history = History()
    history.add({"loss": torch.tensor([1.0, 3.0])})
    history.add({"loss": torch.tensor([5.0, 7.0]), "accepted": torch.tensor([1.0, 0.0])})
    history.add({"loss": torch.tensor([0.0, 2.0]), "accepted": torch.tensor([1.0, 1.0])})
    history.close(1.0, 0.123456, {"extra": torch.tensor(9.0)})
    assert history.rows() == [{"epoch": 1.0, "seconds": 0.1235, "loss": 3.0, "accepted": 0.75, "extra": 9.0}]


def test_what_a_step_reports_is_not_changed_by_the_history() -> None:
    history, value = History(), torch.ones(2)
    for _ in range(3):
        history.add({"loss": value})
    assert torch.equal(value, torch.ones(2))


def test_a_history_is_the_same_after_json() -> None:
    def fill(history: History, start: int) -> History:
        for step in range(start, 7):
            history.add({"b": torch.tensor([0.1 * step, 1 / 3]), "a": torch.tensor([float(step), 0.7])})
            if step % 3 == 2:
                history.close((step + 1) / 3, step, {})
        return history

    whole = fill(History(), 0)
    for cut in range(1, 7):
        part = History()
        for step in range(cut):
            part.add({"b": torch.tensor([0.1 * step, 1 / 3]), "a": torch.tensor([float(step), 0.7])})
            if step % 3 == 2:
                part.close((step + 1) / 3, step, {})
        text, sums = part.saved()
        rest = fill(History.restored(json.loads(json.dumps(text)), {name: t.clone() for name, t in sums.items()}), cut)
        assert rest.rows() == whole.rows()
        assert all(torch.equal(rest.saved()[1][name], value) for name, value in whole.saved()[1].items())


def test_an_empty_history_is_well() -> None:
    history = History()
    assert history.rows() == []
    assert not history.diverged()
    assert history.first_broken_epoch() is None
    history.close(1.0, 0.0, {})
    assert history.rows() == [{"epoch": 1.0, "seconds": 0.0}]


def test_validation_is_the_log_of_the_mixture_over_members() -> None:
    held_out = Stream(7).normal(15, 2)
    targets = held_out.sum(1)
    method = credo.DeepEnsemble(members=4, epochs=3, batch_size=None)
    posterior = credo.fit(MODEL, (X, Y), method, validation=(held_out, targets))
    expected = posterior.predict(held_out).log_prob(targets).mean().item()
    last = posterior.history[-1]["validation_log_likelihood"]
    assert last == pytest.approx(expected, rel=1e-5)  # float32
    each = posterior.model.likelihood.log_prob(
        posterior.draw()(held_out), targets[:, None], posterior.draw().likelihood_params
    )
    assert last > each.mean().item(), "a mean of logs, the broken twin, is less by Jensen's inequality"
    assert all("validation_log_likelihood" in row for row in posterior.history)


def test_validation_in_parts_equals_validation_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    method = credo.DeepEnsemble(members=2, epochs=1)
    whole = credo.fit(MODEL, (X, Y), method, validation=(X, Y)).history[-1]["validation_log_likelihood"]
    monkeypatch.setattr("credo.loop.validation.ENTRIES", 40)
    parts = credo.fit(MODEL, (X, Y), method, validation=(X, Y)).history[-1]["validation_log_likelihood"]
    assert parts == pytest.approx(whole, rel=1e-5)  # float32 products of other sizes


def test_a_long_run_is_validated_about_a_hundred_times_and_at_its_end() -> None:
    posterior = credo.fit(MODEL, (X, Y), credo.MAP(epochs=305, batch_size=None), validation=(X, Y))
    epochs = [row["epoch"] for row in posterior.history if "validation_log_likelihood" in row]
    assert 100 <= len(epochs) <= 200
    assert epochs[-1] == 305


def test_validation_leaves_batch_norm_alone() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    model = credo.Model(net, likelihoods.Gaussian())
    plain, watched = (
        credo.fit(model, (X, Y), credo.MAP(epochs=3, batch_size=8), validation=v).tensors() for v in (None, (X, Y))
    )
    assert all(torch.equal(plain[name], watched[name]) for name in plain)


def test_listeners_hear_growing_numbers_up_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("credo.loop.run.REPORT_SECONDS", 0.0)
    reports: list[Report] = []
    credo.fit(MODEL, (X, Y), credo.MAP(epochs=5, batch_size=6), progress=reports.append)
    assert [r.step for r in reports] == [*range(1, 20), 20]
    assert [r.last for r in reports] == [False] * 19 + [True]
    assert all(r.total == 20 and r.epoch == r.step / 4 for r in reports)
    assert all(b.seconds >= a.seconds for a, b in itertools.pairwise(reports))
    assert all(r.numbers.get("epoch", 0) == r.step // 4 for r in reports)
    assert set(reports[-1].numbers) == {"epoch", "seconds", "log_likelihood", "log_prior", "loss"}


def test_a_short_run_is_told_once_at_its_end() -> None:
    reports: list[Report] = []
    credo.fit(MODEL, (X, Y), credo.MAP(epochs=1, batch_size=None), progress=reports.append)
    assert [(r.step, r.total, r.last) for r in reports] == [(1, 1, True)]


def test_progress_on_a_stream_is_one_line_that_ends(capsys: pytest.CaptureFixture[str]) -> None:
    credo.fit(MODEL, (X, Y), credo.MAP(epochs=2, batch_size=None), progress=True)
    shown = capsys.readouterr().err
    assert shown.startswith("\rMAP  100%  epoch 2/2  loss ")
    assert shown.endswith("0:00 elapsed\n")
    credo.fit(MODEL, (X, Y), credo.MAP(epochs=2), progress=False)
    credo.fit(MODEL, (X, Y), credo.MAP(epochs=2))
    assert capsys.readouterr().err == "", "nothing where there is no terminal"


def test_the_line_ends_when_a_run_is_cut_short(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(credo.CredoWarning, match="stopped"):
        credo.fit(MODEL, (X, Y), credo.MAP(epochs=50), progress=True, seconds=1e-9)
    assert capsys.readouterr().err.endswith("epoch 1/50  loss 3.118  0:00 elapsed\n")


def test_the_text_of_the_line() -> None:
    row = {"epoch": 3.0, "seconds": 60.9, "log_likelihood": -1.23456, "kl": 1e6}
    report = Report(30, 120, 3.0, 61.0, row, epochs=12.0)
    assert progress_text("MAP", report) == "MAP   25%  epoch 4/12  log_likelihood -1.235  3:03 left"
    held_out = {**row, "loss": 2.34567, "validation_log_likelihood": -1.5, "validation_accuracy": 0.9}
    text = progress_text("MAP", replace(report, numbers=held_out))
    assert text == "MAP   25%  epoch 4/12  loss 2.346  val_loss 1.5  val_accuracy 0.9  3:03 left"
    ended = progress_text("MAP", Report(120, 120, 12.0, 61.0, {"loss": 1.0}, last=True, epochs=12.0))
    assert ended == "MAP  100%  epoch 12/12  loss 1  1:01 elapsed"
    assert progress_text("MAP", Report(0, 120, 0.0, 1.0, {})) == "MAP    0%  ? left"


def test_a_shorter_line_wipes_out_a_longer_one() -> None:
    stream = io.StringIO()
    line = ProgressLine("MAP", stream)
    line(Report(1, 2, 0.5, 4000.0, {"log_likelihood": -123.4}))
    line(Report(2, 2, 1.0, 4000.0, {"log_likelihood": -1.0}, last=True))
    first, second = stream.getvalue().split("\r")[1:]
    assert len(second.rstrip("\n")) == len(first)
    assert second.endswith("\n")


def test_the_line_is_cut_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    ProgressLine("MAP", stream)(Report(1, 2, 0.5, 1.0, {"log_likelihood": -1.0}))
    assert len(stream.getvalue()) == 30


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.4, "0:59"), (59.6, "1:00"), (3599.7, "1:00:00"), (math.nan, "?")]
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_who_is_told() -> None:
    def mine(report: Report) -> None: ...

    assert listener(mine, "MAP") is mine
    assert listener(False, "MAP") is None
    assert isinstance(listener(True, "MAP"), ProgressLine)


def test_a_throttle_lets_through_what_is_late() -> None:
    assert Throttle(0.0)()
    assert not Throttle(1e6)()


@dataclass(frozen=True)
class Odd(credo.Method):
    """A method whose run is not a whole number of epochs, and whose steps report by turns."""

    batch_size: int | None = 6

    def steps(self, batches: int) -> int:
        return 10

    def init(self, target: credo.Target, variables: credo.Variables, rng: Stream) -> credo.Variables:
        return variables

    def step(self, target: credo.Target, state: credo.Variables, batch: credo.Batch, tick: Tick) -> tuple:
        info: Info = {
            "log_likelihood": target.data_term(target.log_likelihood(state, batch), batch).detach() / target.size
        }
        if tick.step % 2:
            info["turn"] = torch.full((1,), float(tick.step))
        return state, info

    def current(self, state: credo.Variables) -> credo.Variables:
        return state

    def posterior(self, target: credo.Target, state: credo.Variables) -> credo.Posterior:
        return credo.posteriors.Draws(target.model, state, credo.posteriors.Draws.uniform(state))


def test_a_run_that_ends_within_an_epoch_has_a_row_for_its_rest(tmp_path: Path) -> None:
    posterior = credo.fit(MODEL, (X, Y), Odd(), validation=(X, Y))
    assert [row["epoch"] for row in posterior.history] == [1.0, 2.0, 2.5]
    assert [row["turn"] for row in posterior.history] == [2.0, 6.0, 9.0]
    assert "validation_log_likelihood" in posterior.history[-1]


def test_a_method_that_cannot_be_recorded_is_refused_at_the_door() -> None:
    @dataclass(frozen=True)
    class Unspeakable(credo.MAP):
        noise: Tensor | None = None

    with pytest.raises(TypeError, match="cannot be written to JSON"):
        credo.fit(MODEL, (X, Y), Unspeakable(noise=torch.ones(1)))
