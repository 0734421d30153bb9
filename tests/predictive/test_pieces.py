"""What is computed for some examples at a time is what is computed for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from credo import Stream, likelihoods
from credo.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Head,
    HeteroscedasticGaussian,
    Joint,
    LearnedGaussian,
    Likelihood,
    Poisson,
    Standardized,
    at_positions,
)
from credo.likelihoods import standardized as standardized_module
from credo.predictive import NumericPredictive, Predictive, base, predictive

RNG = Stream(2, ("pieces",))
S, B = 5, 23
SCALED = Standardized(HeteroscedasticGaussian(), (70.0, -1.0), (10.0, 0.1))
SCALES = {"log_scale": RNG.child("scales").normal(S, 2, dtype=torch.float64)}


@dataclass(frozen=True)
class Case:
    """A likelihood, the shape of its outputs for one example, targets, and learned parameters."""

    likelihood: Likelihood
    event: tuple[int, ...]
    y: Any
    params: dict[str, Tensor]


REAL = RNG.child("real").normal(B, 2, dtype=torch.float64)
CLASSES = torch.arange(B) % 3
MAPS = RNG.child("maps").normal(B, 2, 3, 2, dtype=torch.float64)
JOINT = Joint(heads=(Head("a", SCALED, (4,)), Head("b", Categorical(), (3,))))
CASES = {
    "numbers": Case(LearnedGaussian(), (2,), REAL, SCALES),
    "standardized": Case(Standardized(LearnedGaussian(), (70.0, -1.0), (10.0, 0.1)), (2,), REAL, SCALES),
    "noise of x": Case(SCALED, (4,), REAL, {}),
    "counts": Case(Poisson(), (2,), REAL.abs().round(), {}),
    "classes": Case(Categorical(), (3,), CLASSES, {}),
    "yes or no": Case(Bernoulli(), (2,), (REAL > 0).double(), {}),
    "numbers at positions": Case(at_positions(Gaussian(), 2), (2, 3, 2), MAPS, {}),
    "noise of x at positions": Case(at_positions(SCALED, 2), (4, 3, 2), MAPS, {}),
    "classes at positions": Case(at_positions(Categorical(), 2), (2, 3, 2), (MAPS[:, 0] > 0).long(), {}),
}


def prediction(case: Case, rows: slice = slice(None)) -> Predictive:
    draws = RNG.child("draws").normal(S, B, *case.event, dtype=torch.float64)[:, rows]
    weights = RNG.child("weights").normal(S, dtype=torch.float64)
    return predictive(case.likelihood, draws, case.params, weights)


def all_of(p: Predictive, y: Tensor) -> dict[str, Tensor]:
    names = ("mean", "epistemic", "aleatoric", "entropy", "expected_entropy", "mutual_information")
    found = {name: getattr(p, name) for name in names}
    found |= {"log_prob": p.log_prob(y), "log_prob_each": p.log_prob_each(y), "joint": p.joint_log_prob(y)}
    if isinstance(p, NumericPredictive):
        lower, upper = p.interval(0.9)
        found |= {
            "lower": lower,
            "upper": upper,
            "cdf": p.cdf(y),
            "survival": p.survival(y),
            "at one": p.cdf(y.flatten()[0]),
        }
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("entries", [1, 64])
def test_pieces_are_the_whole(name: str, entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    y = case.y
    whole = all_of(prediction(case), y)
    monkeypatch.setitem(base.PIECE_ENTRIES, "cpu", entries)
    monkeypatch.setattr(standardized_module, "PIECE", 1)
    pieces = all_of(prediction(case), y)
    for each, known in whole.items():
        # an entropy is integrated with as many points as the widest mixture beside it asks for
        tolerance = {"rtol": 1e-3, "atol": 1e-3} if each in ("entropy", "mutual_information") else {}
        torch.testing.assert_close(pieces[each], known, **tolerance, msg=lambda said, each=each: f"{each}: {said}")


def test_pieces_of_several_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(JOINT, (7,), {"a": REAL, "b": CLASSES}, {})
    known, y = prediction(case), case.y
    monkeypatch.setitem(base.PIECE_ENTRIES, "cpu", 64)
    found = prediction(case)
    torch.testing.assert_close(found.log_prob(y), known.log_prob(y))
    torch.testing.assert_close(found.joint_log_prob(y), known.joint_log_prob(y))
    torch.testing.assert_close(found.expected_entropy, known.expected_entropy)


def test_a_piece_has_the_noise_of_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: learned parameters of other rows."""
    case = CASES["noise of x"]
    known = prediction(case).aleatoric
    monkeypatch.setitem(base.PIECE_ENTRIES, "cpu", 64)
    monkeypatch.setattr(
        likelihoods.gaussian.MarginalGaussian, "params_at", lambda self, p, rows, n: {"scale": p["scale"][:, :3]}
    )
    with pytest.raises((AssertionError, RuntimeError)):
        torch.testing.assert_close(prediction(case).aleatoric, known)
