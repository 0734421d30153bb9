"""Pools of every form, answers of every kind, and sessions that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, SubsetRandomSampler, TensorDataset

import credo
from credo import likelihoods, nets
from credo.core.status import Status
from credo.decide import ActiveLearner, Questions, simulate

X = torch.cat([credo.Stream(0).normal(30, 2) - 1.5, credo.Stream(1).normal(30, 2) + 1.5])
Y = (torch.arange(60) >= 30).long()
START = [0, 1, 30, 31]
METHOD = credo.DeepEnsemble(members=3, epochs=8, batch_size=8, learning_rate=1e-2)


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.layer(torch.cat([left, right], 1))


class Noisy(Dataset[Any]):
    """A picture with a random transform, its label and its name."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> tuple[Tensor, int, str]:
        return X[i] + 0.01 * torch.randn(2), int(Y[i]), f"{i}.png"


class Endless(IterableDataset[Tensor]):
    def __iter__(self) -> Any:
        return iter(X)


def asked(pool: Any, net: Any = None, **options: Any) -> list[int]:
    learner = ActiveLearner(net or nets.MLP(2, 2, (8,)), pool, METHOD, Questions("batchbald"), **options)
    learner.tell(START, Y[START])
    return learner.ask(5)


def test_a_data_set_a_loader_and_a_tensor_are_the_same_pool() -> None:
    expected = asked(X)
    assert asked(X.numpy()) == asked(TensorDataset(X)) == expected
    assert asked(DataLoader(TensorDataset(X), batch_size=7, shuffle=True)) == expected
    assert asked(DataLoader(TensorDataset(X, Y), batch_size=7), inputs=0) == expected
    assert asked({"x": X, "y": Y}, inputs="x") == expected


def test_several_inputs() -> None:
    halves = X[:, :1], X[:, 1:]
    expected = asked(halves, TwoInputs())
    assert asked(TensorDataset(*halves), TwoInputs()) == expected
    assert asked({"left": halves[0], "right": halves[1]}, TwoInputs()) == expected
    assert asked(TensorDataset(*halves, Y), TwoInputs(), inputs=(0, 1)) == expected


def test_random_transforms_are_repeated_and_the_global_generator_is_left_alone() -> None:
    net, before = nets.MLP(2, 2, (8,)), torch.get_rng_state()
    assert asked(Noisy(), net, inputs=0) == asked(Noisy(), net, inputs=0)
    assert torch.equal(torch.get_rng_state(), before)


BAD_POOLS: dict[str, tuple[Any, str]] = {
    "iterable": (Endless(), "without numbered examples"),
    "sampler": (DataLoader(TensorDataset(X), sampler=SubsetRandomSampler([1, 2])), "no fixed numbers"),
    "no batches": (DataLoader(TensorDataset(X), batch_size=None), "no fixed numbers"),
    "empty": (TensorDataset(X[:0]), "the pool is empty"),
    "graph": (credo.Graph((X, Y)), "a graph"),
    "nan": (X / 0.0 * 0.0, "NaN"),
}


@pytest.mark.parametrize(("pool", "answer"), BAD_POOLS.values(), ids=BAD_POOLS.keys())
def test_a_pool_that_cannot_be_is_refused_in_a_sentence(pool: Any, answer: str) -> None:
    with pytest.raises(ValueError, match=answer):
        asked(pool)


def test_a_part_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="no 'image': it has 'x'"):
        asked({"x": X}, inputs="image")


def test_digits_of_double_precision_are_kept() -> None:
    """Clock times in nanoseconds, which float32 cannot tell apart."""
    clock = 1.7e18 + 1e8 * X.double()
    assert asked(clock) == asked(clock.numpy()) == asked(clock.tolist())
    learner = ActiveLearner(nets.MLP(2, 1, (8,)), clock, METHOD)
    learner.tell(START, 1e9 + X[START, 0].double())
    assert learner.labeled[0] == 1e9 + float(X[0, 0])
    assert learner.posterior.predict(clock).mean.sub(1e9).abs().max() < 100


def test_another_pool_of_the_same_size_is_refused(tmp_path: Path) -> None:
    asked(X, folder=tmp_path)
    with pytest.raises(credo.StorageError, match="another pool"):
        asked(X.flip(0), folder=tmp_path)
    with pytest.raises(credo.StorageError, match="another model"):
        asked(X, nets.MLP(2, 2, (9,)), folder=tmp_path)


def test_a_label_that_cannot_be_learned_is_not_written_down(tmp_path: Path) -> None:
    learner = ActiveLearner(nets.MLP(2, 2, (8,)), X, METHOD, folder=tmp_path)
    learner.tell(START, Y[START])
    with pytest.raises(ValueError, match="2"):
        learner.tell([5], [2])
    assert learner.ask(1)
    again = ActiveLearner(nets.MLP(2, 2, (8,)), X, METHOD, folder=tmp_path)
    assert list(again.labeled) == START
    assert again.ask(2) == learner.ask(2)


def test_a_class_that_no_label_has_yet() -> None:
    learner = ActiveLearner(nets.MLP(2, 3, (8,)), X, METHOD)
    learner.tell([0, 1], [0, 0])
    learner.tell([30], [2])
    assert learner.ask(2)


KINDS: dict[str, tuple[Any, Any, Any, type]] = {
    "floats for classes": (likelihoods.Categorical(), [0.0, 1.0], [1.0], int),
    "yes and no": (None, [False, True], [1.0], int),
    "whole numbers for numbers": (likelihoods.Gaussian(0.5), [3, 4], [3.5], float),
    "a whole number later": (None, [3.5, 4.0], [4], float),
}


@pytest.mark.parametrize(("likelihood", "first", "later", "kind"), KINDS.values(), ids=KINDS.keys())
def test_labels_are_of_the_kind_that_the_likelihood_says(likelihood: Any, first: Any, later: Any, kind: type) -> None:
    outputs = 1 if kind is float else 2
    learner = ActiveLearner(credo.Model(nets.MLP(2, outputs, (8,)), likelihood), X, METHOD)
    learner.tell([0, 30], first)
    learner.tell([5], later)
    assert {type(label) for label in learner.labeled.values()} == {kind}


def test_several_targets_of_an_input(tmp_path: Path) -> None:
    y = torch.stack([X.sum(1), X[:, 0]], 1)
    learner = ActiveLearner(nets.MLP(2, 2, (8,)), X, METHOD, Questions("batchbald"), folder=tmp_path)
    learner.tell(START, y[START])
    again = ActiveLearner(nets.MLP(2, 2, (8,)), X, METHOD, Questions("batchbald"), folder=tmp_path)
    assert again.ask(3) == learner.ask(3)
    assert again.labeled == learner.labeled


@pytest.mark.parametrize("rows", [[1.5], [True], torch.tensor([0.0])])
def test_rows_are_numbers(rows: Any) -> None:
    with pytest.raises(TypeError, match="numbers of inputs"):
        ActiveLearner(nets.MLP(2, 2, (8,)), X, METHOD).tell(rows, [0])


def test_a_finite_set_of_draws_is_used_as_it_is() -> None:
    """Resampling three members to 100 draws would weigh them 34, 33, 33."""
    learner = ActiveLearner(nets.MLP(2, 2, (8,)), X, METHOD)
    learner.tell(START, Y[START])
    prediction = learner.predict(range(60))
    assert len(prediction.draws) == 3
    torch.testing.assert_close(prediction.probs, learner.posterior.predict(X).probs)


@pytest.mark.parametrize("restart", ["cold", "warm"])
def test_history_says_how_good_each_round_was(tmp_path: Path, restart: str) -> None:
    options: dict[str, Any] = {"test": (X, Y), "restart": restart, "folder": tmp_path}
    learner = simulate(ActiveLearner(nets.MLP(2, 2, (8,)), X, METHOD, **options), Y, START, 3, 2)
    assert [row["labels"] for row in learner.history] == [4, 7, 10]
    assert set(learner.history[0]) == {"round", "labels", "accuracy", "log_likelihood"}
    again = simulate(ActiveLearner(nets.MLP(2, 2, (8,)), X, METHOD, **options), Y, START, 3, 2)
    assert again.history == learner.history
    assert torch.equal(again.posterior.predict(X).draws, learner.posterior.predict(X).draws)
    kept = [path.name for path in tmp_path.glob("round-*")]
    assert sorted(kept) == (["round-3"] if restart == "cold" else ["round-1", "round-2", "round-3"])


def test_numbers_are_judged_by_their_error() -> None:
    learner = ActiveLearner(nets.MLP(2, 1, (8,)), X, METHOD, test=(X, X[:, 0]))
    learner.tell(START, X[START, 0])
    assert set(learner.history[0]) == {"round", "labels", "rmse", "log_likelihood"}


def test_a_training_that_diverged_asks_for_nothing() -> None:
    wild = credo.MAP(epochs=30, learning_rate=1e30, optimizer=credo.SGD())
    learner = ActiveLearner(credo.Model(nets.MLP(2, 2, (8,)), likelihoods.Categorical()), X, wild)
    with pytest.warns(credo.CredoWarning):
        learner.tell(START, Y[START])
    assert learner.posterior.record.status is Status.DIVERGED
    with pytest.raises(ValueError, match=r"round 1.*smaller learning rate"):
        learner.ask(3)


def test_after_ctrl_c_half_a_training_is_no_result(tmp_path: Path) -> None:
    endless = credo.MAP(epochs=10**6)
    learner = ActiveLearner(nets.MLP(2, 2, (8,)), X, endless, folder=tmp_path)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.warns(credo.CredoWarning, match="interrupted"), pytest.raises(KeyboardInterrupt, match="are kept"):
        learner.tell(START, Y[START])
    again = ActiveLearner(nets.MLP(2, 2, (8,)), X, endless, folder=tmp_path)
    assert list(learner.labeled) == list(again.labeled) == START
    assert (tmp_path / "round-1").exists()


SCRIPT = """
import sys, torch, credo
sys.path.insert(0, sys.argv[2])
from test_pools import X, Y, START
from credo.decide import ActiveLearner, simulate
method = credo.DeepEnsemble(members=3, epochs=60, batch_size=2)
learner = ActiveLearner(credo.nets.MLP(2, 2, (8,)), X, method, folder=sys.argv[1], test=(X, Y))
simulate(learner, Y, START, 2, 4)
torch.save(learner.posterior.predict(X).draws, sys.argv[1] + "/draws.pt")
print(list(learner.labeled))
"""


def test_a_session_that_is_killed_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    def started(folder: Path) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", SCRIPT, str(folder), str(Path(__file__).parent)]
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    expected = started(whole)
    for rounds in (1, 3):
        process = started(killed)
        while process.poll() is None and not (killed / f"round-{rounds}").exists():
            time.sleep(0.005)
        process.kill()
        process.communicate()
        assert not (killed / "draws.pt").exists(), "it was killed too late to show anything"
    last = started(killed)
    (out, error), (wanted, _) = last.communicate(), expected.communicate()
    assert last.returncode == 0, error
    assert out == wanted
    assert torch.equal(torch.load(killed / "draws.pt"), torch.load(whole / "draws.pt"))


def test_a_part_of_a_data_set() -> None:
    part = Subset(TensorDataset(X), list(range(0, 60, 2)))
    learner = ActiveLearner(nets.MLP(2, 2, (8,)), part, METHOD)
    learner.tell([0, 29], [0, 1])
    assert max(learner.ask(28)) < 30
