"""Active learning as a conversation that can be broken off at any time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import credo
from credo import nets
from credo.decide import ActiveLearner, Questions, simulate

X = torch.cat([credo.Stream(0).normal(60, 2) - 1.5, credo.Stream(1).normal(60, 2) + 1.5])
Y = (torch.arange(120) >= 60).long()
START = [0, 1, 60, 61]


def learner(**options: Any) -> ActiveLearner:
    method = credo.DeepEnsemble(members=3, epochs=15, batch_size=8, learning_rate=1e-2)
    return ActiveLearner(**{"model": nets.MLP(2, 2, (8,)), "pool": X, "method": method, **options})


def told(rounds: int = 2, **options: Any) -> ActiveLearner:
    active = learner(**options)
    return simulate(active, Y, START, 3, rounds)


def predictions(active: ActiveLearner) -> Tensor:
    return active.posterior.predict(X).draws


@pytest.mark.parametrize("acquisition", ["bald", "batchbald", "entropy", "mean standard deviation", "random"])
def test_it_asks_for_what_has_no_label_and_learns(acquisition: str) -> None:
    active = told(3, questions=Questions(acquisition))
    assert len(active.labeled) == 4 + 3 * 3
    assert [len(each.rows) for each in active.rounds] == [4, 3, 3, 3]
    assert (active.posterior.predict(X).label == Y).double().mean() > 0.8
    asked = active.ask(5)
    assert not set(asked) & set(active.labeled)
    assert asked == active.ask(5), "the same question twice"


@pytest.mark.parametrize("restart", ["cold", "warm"])
def test_a_session_goes_on_where_it_was_broken_off(tmp_path: Path, restart: str) -> None:
    whole = told(3, restart=restart)
    told(1, restart=restart, folder=tmp_path)
    active = learner(restart=restart, folder=tmp_path)  # another process would do the same
    assert len(active.rounds) == 2
    for _ in range(2):
        rows = active.ask(3)
        active.tell(rows, Y[rows])
    assert active.labeled == whole.labeled
    assert torch.equal(predictions(active), predictions(whole))


def test_a_warm_start_is_no_cold_one() -> None:
    assert not torch.equal(predictions(told(restart="warm")), predictions(told()))


def test_an_answer_is_kept_even_if_training_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    active = told(1, folder=tmp_path)
    rows = active.ask(3)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("credo.decide.active.fit", killed)
        with pytest.raises(KeyboardInterrupt):
            active.tell(rows, Y[rows])
    again = learner(folder=tmp_path)
    assert list(again.labeled)[-3:] == rows
    reference = told(1)
    reference.tell(rows, Y[rows])
    assert torch.equal(predictions(again), predictions(reference))


def test_numbers_and_candidates() -> None:
    active = ActiveLearner(
        nets.MLP(2, 1, (8,)), X, credo.DeepEnsemble(members=3, epochs=10), Questions("batchbald", candidates=20)
    )
    simulate(active, X[:, 0].sin(), START, 4, 2)
    assert len(active.labeled) == 12
    first, again = active.ask(30), active.ask(30)
    assert first == again
    assert len(first) == 20, "no more than the candidates"


def test_the_pool_may_run_out() -> None:
    active = ActiveLearner(nets.MLP(2, 2, (4,)), X[56:64], credo.DeepEnsemble(members=2, epochs=2))
    active.tell([0, 7], [0, 1])
    rows = active.ask(50)
    assert sorted(rows) == [1, 2, 3, 4, 5, 6]
    active.tell(rows, Y[56:64][rows])
    with pytest.raises(ValueError, match="the pool is used up"):
        active.ask(1)


MISTAKES: dict[str, tuple[Any, str]] = {
    "no labels": (lambda: learner().ask(1), "there are no labels yet"),
    "empty": (lambda: learner(pool=torch.zeros(0, 2)), "the pool is empty"),
    "outside": (lambda: learner().tell([500], [0]), "label for row 500"),
    "twice": (lambda: learner().tell([5, 5], [0, 1]), "row 5 has a label already"),
    "again": (lambda: told(0).tell([0], [1]), "row 0 has a label already"),
    "uneven": (lambda: learner().tell([5, 6], [0]), "one label for each row"),
    "nan": (lambda: learner().tell([5], [float("nan")]), "NaN"),
    "kinds": (lambda: told(0).tell([5], [0.5]), "one kind"),
    "acquisition": (lambda: Questions("surprise"), "must be one of"),
    "restart": (lambda: learner(restart="tepid"), "must be one of"),
    "method": (lambda: learner(method="MAP"), "method must be"),
}


@pytest.mark.parametrize(("mistake", "answer"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_answered_in_a_sentence(mistake: Any, answer: str) -> None:
    with pytest.raises((ValueError, TypeError), match=answer):
        mistake()


def test_a_mistake_loses_nothing(tmp_path: Path) -> None:
    active = told(1, folder=tmp_path)
    before = active.labeled
    with pytest.raises(ValueError, match="already"):
        active.tell([0], [1])
    assert active.labeled == before == learner(folder=tmp_path).labeled


def test_two_learners_in_a_folder_lose_no_answer(tmp_path: Path) -> None:
    first, second = told(1, folder=tmp_path), learner(folder=tmp_path)
    mine, theirs = first.ask(2), [row for row in range(len(X)) if row not in first.labeled][-2:]
    first.tell(mine, Y[mine])
    with pytest.raises(credo.StorageError, match="another one has gone on with the session"):
        second.tell(theirs, Y[theirs])
    assert first.labeled == learner(folder=tmp_path).labeled
    again = learner(folder=tmp_path)
    again.tell(theirs, Y[theirs])
    assert set(learner(folder=tmp_path).labeled) == {*first.labeled, *theirs}


def test_another_session_in_the_folder_is_refused(tmp_path: Path) -> None:
    told(0, folder=tmp_path)
    with pytest.raises(credo.StorageError, match="a seed of 0, and this one has 1"):
        learner(folder=tmp_path, seed=1)
    session = json.loads((tmp_path / "session.json").read_text())
    session["rounds"][0]["rows"][0] = 10_000
    (tmp_path / "session.json").write_text(json.dumps(session))
    with pytest.raises(credo.StorageError, match="a round that cannot be"):
        learner(folder=tmp_path)
