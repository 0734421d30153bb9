"""Options of methods: a value of the wrong kind is refused where it is written, in a sentence that names it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import credo
from credo import methods
from credo.core.config import encode
from credo.methods.checks import check_options
from credo.methods.vi import At, Flipout, GeometricWeights

GIVEN: dict[str, dict[str, Any]] = {"Ensemble": {"method": credo.MAP()}}
"""What a method cannot be made without."""
CLASSES: dict[str, type] = {
    name: getattr(methods, name)
    for name in methods.__all__
    if dataclasses.is_dataclass(getattr(methods, name)) and name != "Tick"
}
OPTIONS = [(name, field.name) for name, made in CLASSES.items() for field in dataclasses.fields(made) if field.init]
NOWHERE = (object(), 1j, [], dict, b"x", torch.ones(2, 2))
"""What no option takes."""


def made(name: str, **options: Any) -> Any:
    return CLASSES[name](**{**GIVEN.get(name, {}), **options})


def default(name: str, option: str) -> Any:
    return getattr(made(name), option)


def numbers(kind: type) -> list[tuple[str, str]]:
    return [(name, option) for name, option in OPTIONS if type(default(name, option)) is kind]


def refusal(name: str, option: str, value: Any) -> str:
    with pytest.raises((TypeError, ValueError)) as caught:
        made(name, **{option: value})
    message = str(caught.value)
    assert message.startswith(f"{option} must be "), message
    assert "got " in message
    return message


def test_all_methods_are_looked_at() -> None:
    assert {"MAP", "MCDropout", "BlackBoxVI", "SGHMC", "MCLMC", "Metropolis", "Hamiltonian"} < CLASSES.keys()
    assert len(CLASSES) == 21
    assert len(OPTIONS) > 130


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_what_no_option_takes_is_refused_by_the_name_of_the_argument(name: str, option: str) -> None:
    for wrong in NOWHERE:
        refusal(name, option, wrong)


@pytest.mark.parametrize(("name", "option"), numbers(int))
def test_whole_numbers(name: str, option: str) -> None:
    for wrong in ("10", 1.5, 10.0, True, torch.tensor(1.5), np.float64(2.0), torch.ones(2)):
        assert "a whole number such as" in refusal(name, option, wrong)
    plain = default(name, option)
    for right in (np.int64(plain), torch.tensor(plain)):
        assert encode(made(name, **{option: right})) == encode(made(name))


@pytest.mark.parametrize(("name", "option"), numbers(float))
def test_numbers(name: str, option: str) -> None:
    for wrong in ("0.1", True, None, torch.ones(2), np.array([0.1])):
        assert "a number such as" in refusal(name, option, wrong)
    plain = default(name, option)
    for right in (np.float64(plain), torch.tensor(plain, dtype=torch.float64), np.array(plain)):
        assert encode(made(name, **{option: right})) == encode(made(name))


@pytest.mark.parametrize(("name", "option"), numbers(bool))
def test_switches(name: str, option: str) -> None:
    for wrong in ("yes", 1, None):
        assert "True or False" in refusal(name, option, wrong)
    assert made(name, **{option: np.bool_(default(name, option))}) == made(name)


@pytest.mark.parametrize(
    ("name", "option", "value", "sentence"),
    [
        ("BayesByBackprop", "annealing", 0.5, "annealing must be a Schedule such as Constant(), got 0.5"),
        ("BayesByBackprop", "schedule", "cosine", "schedule must be a Schedule such as Constant(), got 'cosine'"),
        (
            "BayesByBackprop",
            "batch_weights",
            "geometric",
            "must be a BatchWeights such as EvenWeights(), got 'geometric'",
        ),
        (
            "BayesByBackprop",
            "batch_weights",
            GeometricWeights,
            "got the class GeometricWeights: write GeometricWeights()",
        ),
        ("BayesByBackprop", "initial_mean", 0.0, "initial_mean must be a Start such as At(0.0) or None, got 0.0"),
        ("BayesByBackprop", "initial_rho", -3.0, "initial_rho must be a Start such as At(-3.0) or None, got -3.0"),
        ("BayesByBackprop", "estimator", Flipout, "or a value such as Flipout(); got <class"),
        ("BayesByBackprop", "bayesian", (1,), "bayesian must be a pattern such as '*weight', or several in a tuple"),
        ("BlackBoxVI", "initial_rho", -3.0, "such as At(-3.0)"),
        ("VariationalDropout", "noisy", (), "noisy must be a pattern"),
        ("VariationalDropout", "sharing", 1, "sharing must be one of layer, unit, weight"),
        ("ConcreteDropout", "drops", "neurons", "drops must be one of units, channels, weights, got 'neurons'"),
        ("MCDropout", "rate", {"*": "a"}, "such as 0.1 or {'layers.3': 0.1}"),
        ("MAP", "optimizer", "adam", "optimizer must be an Optimizer such as Adam(), got 'adam'"),
        ("MAP", "optimizer", torch.optim.Adam, "such as Adam(), got <class 'torch.optim.adam.Adam'>"),
        ("MAP", "batch_size", 0.5, "batch_size must be a whole number such as 128 or None, got 0.5"),
        ("Ensemble", "method", methods.MAP, "method must be a Method such as MAP(), got the class MAP: write MAP()"),
        (
            "SGLD",
            "preconditioner",
            True,
            "preconditioner must be a value such as RMSPreconditioner() or None, got True",
        ),
        ("SimulatedAnnealing", "schedule", 0.9, "schedule must be a Schedule such as Geometric(), got 0.9"),
        ("AnnealedImportanceSampling", "kernel", "hmc", "kernel must be a Kernel such as Hamiltonian(), got 'hmc'"),
        ("ImportanceSampling", "proposal", "prior", "such as the result of BayesByBackprop or None, got 'prior'"),
    ],
)
def test_the_sentence_says_what_is_taken_and_what_was_got(name: str, option: str, value: Any, sentence: str) -> None:
    assert sentence in refusal(name, option, value)


def test_numbers_of_an_ensemble_are_those_of_its_method() -> None:
    with pytest.raises(TypeError, match="epochs must be a whole number such as 100, got '10'"):
        credo.DeepEnsemble(epochs="10")


def test_what_was_taken_is_taken() -> None:
    assert made("BayesByBackprop", bayesian=["*weight"]).bayesian == ("*weight",)
    assert made("BayesByBackprop", initial_rho=At(-3.0), batch_size=None).initial_rho == At(-3.0)
    assert made("MCDropout", rate={"*": np.float32(0.5)}).rate == {"*": 0.5}
    assert made("MCDropout", rate=0, drops="units").rate == 0.0
    assert made("MAP", learning_rate=1).learning_rate == 1


def test_a_class_whose_annotations_only_a_type_checker_reads_is_left_to_its_own_checks() -> None:
    class Unseen:
        pass

    @dataclass(frozen=True)
    class Local:
        part: Unseen

    @dataclass(frozen=True)
    class Loose:
        anything: Any
        number: float = 1.0

    check_options(Local(Unseen()))
    check_options(Loose("what"))
    with pytest.raises(TypeError, match=r"number must be a number such as 1\.0"):
        check_options(Loose("what", "one"))
