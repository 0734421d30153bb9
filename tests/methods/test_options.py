"""Options of methods and of their parts: what cannot be meant is refused where it is written, in a sentence."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import credo
import methods_table
from credo import likelihoods, methods, priors
from credo.core import optimizers, schedules
from credo.core.checks import check_options
from credo.core.config import encode
from credo.methods.vi import ConstantInit, Flipout, GeometricWeights, initializers, objective

GIVEN: dict[str, dict[str, Any]] = {
    "Ensemble": {"method": credo.MAP()},
    "ConstantInit": {"value": 0.5},
    "UniformInit": {"low": -2.0, "high": 2.0},
    "NormalInit": {"scale": 0.5},
    "Head": {"name": "price", "likelihood": likelihoods.Gaussian()},
    "Standardized": {"base": likelihoods.Gaussian(), "loc": (0.0,), "scale": (1.0,)},
    "ClassesAtPositions": {"base": likelihoods.Categorical(), "axes": 2},
    "NumbersAtPositions": {"base": likelihoods.Gaussian(), "axes": 1},
}
"""What cannot be made without."""
METHODS: dict[str, type] = {
    name: getattr(methods, name)
    for name in methods.__all__
    if dataclasses.is_dataclass(getattr(methods, name)) and name != "Tick"
}
PARTS: dict[str, type] = {
    f"priors.{name}" if name in METHODS else name: value  # Laplace is a method and a prior
    for room in (optimizers, schedules, initializers, objective, priors, likelihoods)
    for name, value in vars(room).items()
    if dataclasses.is_dataclass(value)
    and value.__module__.startswith(room.__name__)
    and dataclasses.fields(value)
    and name != "Joint"  # whose options have names that a person gives
}
"""What goes into methods and models."""
CLASSES = {**METHODS, **PARTS}
OPTIONS = [(name, field.name) for name, made in CLASSES.items() for field in dataclasses.fields(made) if field.init]
NOWHERE = (object(), 1j, [], dict, b"x", torch.ones(2, 2))
"""What no option takes."""
ODD: dict[str, Any] = {"text": "a", "None": None, "list": [1], "nan": math.nan, "inf": math.inf, "negative": -1.0}
"""What few options of parts take."""
TAKEN = {
    ("StepDecay", "at"): {"list"},
    ("ConstantInit", "value"): {"negative"},
    ("UniformInit", "low"): {"negative"},
    ("UniformInit", "high"): {"negative"},
    ("LogNormal", "loc"): {"negative"},
    ("NegativeBinomial", "offset"): {"negative"},
    ("LogUniform", "names"): {"None"},
    ("LogUniform", "others"): {"None"},
    ("Head", "name"): {"text"},
    ("Head", "shape"): {"None"},
    ("Standardized", "loc"): {"list", "negative"},
    ("Standardized", "scale"): {"list"},
}
"""Those that do."""


def made(name: str, /, **options: Any) -> Any:
    return CLASSES[name](**{**GIVEN.get(name, {}), **options})


def default(name: str, option: str) -> Any:
    return getattr(made(name), option)


def numbers(kind: type) -> list[tuple[str, str]]:
    return [(name, option) for name, option in OPTIONS if type(default(name, option)) is kind]


def refusal(name: str, option: str, value: Any) -> str:
    with pytest.raises((TypeError, ValueError)) as caught:
        made(name, **{option: value})
    message = str(caught.value)
    assert message.startswith((f"{option} must be ", f"{option} must lie ")), message
    assert "got " in message
    assert "not supported between" not in message
    assert "NoneType" not in message
    return message


def test_all_methods_are_looked_at() -> None:
    assert {"MAP", "MCDropout", "BlackBoxVI", "SGHMC", "MCLMC", "Metropolis", "Hamiltonian"} < METHODS.keys()
    table = methods_table.methods(epochs=2, iterations=2)
    assert {type(method).__name__ for method in table.values()} <= METHODS.keys()
    assert {name for name, _ in OPTIONS} > METHODS.keys()


def test_all_parts_are_looked_at() -> None:
    rules = {"Adam", "SGD", "Cosine", "StepDecay", "Polynomial", "Geometric", "Cyclical", "WarmUp"}
    values = {
        "ConstantInit",
        "UniformInit",
        "NormalInit",
        "Normal",
        "priors.Laplace",
        "StudentT",
        "ScaleMixture",
        "LogUniform",
    }
    assert PARTS.keys() == rules | values | {
        *("Gaussian", "LearnedGaussian", "SharedGaussian", "HeteroscedasticGaussian", "Standardized"),
        *("MultivariateGaussian", "HeteroscedasticStudentT", "LogNormal", "NegativeBinomial"),
        *("ClassesAtPositions", "NumbersAtPositions", "Head", "ChosenArm"),
    }
    assert not METHODS.keys() & PARTS.keys()


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_what_no_option_takes_is_refused_by_the_name_of_the_argument(name: str, option: str) -> None:
    for wrong in NOWHERE:
        if not (option == "at" and wrong == []):  # at no time: a constant
            refusal(name, option, wrong)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(("name", "option"), [(name, option) for name, option in OPTIONS if name in PARTS])
def test_what_few_parts_take(name: str, option: str, odd: str) -> None:
    if odd in TAKEN.get((name, option), ()):
        made(name, **{option: ODD[odd]})
    else:
        refusal(name, option, ODD[odd])


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
        (
            "BayesByBackprop",
            "initial_mean",
            0.0,
            "initial_mean must be an Initializer such as ConstantInit(0.0) or None, got 0.0",
        ),
        (
            "BayesByBackprop",
            "initial_rho",
            -3.0,
            "initial_rho must be an Initializer such as ConstantInit(-3.0) or None, got -3.0",
        ),
        ("BayesByBackprop", "estimator", Flipout, "or a value such as Flipout(); got <class"),
        ("BayesByBackprop", "bayesian", (1,), "bayesian must be a pattern such as '*weight', or several in a tuple"),
        ("BlackBoxVI", "initial_rho", -3.0, "such as ConstantInit(-3.0)"),
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
        (
            "AnnealedImportanceSampling",
            "transition",
            "hmc",
            "transition must be a Transition such as Hamiltonian(), got 'hmc'",
        ),
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
    assert made("BayesByBackprop", initial_rho=ConstantInit(-3.0), batch_size=None).initial_rho == ConstantInit(-3.0)
    assert made("MCDropout", rate={"*": np.float32(0.5)}).rate == {"*": 0.5}
    assert made("MCDropout", rate=0, drops="units").rate == 0.0
    assert made("MAP", learning_rate=1).learning_rate == 1
    assert made("SGD", momentum=0).momentum == 0
    assert made("Cosine", final=2.0).final == 2.0
    assert made("Normal", scale=torch.tensor(0.5), fan_in=np.bool_(True)) == priors.Normal(0.5, fan_in=True)


@pytest.mark.parametrize(
    "given", [[0.25, 0.5], np.array([0.25, 0.5]), torch.tensor([0.25, 0.5]), (np.float32(0.25), np.float64(0.5))]
)
def test_times_of_a_decay_become_a_tuple_of_plain_numbers(given: Any) -> None:
    decay = optimizers.StepDecay(at=given, by=0.5)
    assert encode(decay) == encode(optimizers.StepDecay(at=(0.25, 0.5), by=0.5))
    assert hash(decay) == hash(optimizers.StepDecay(at=(0.25, 0.5), by=0.5))
    assert [decay.factor(fraction) for fraction in (0.0, 0.3, 0.6)] == [1.0, 0.5, 0.25]


@pytest.mark.parametrize("given", [0.5, np.float64(0.5), torch.tensor(0.5)])
def test_a_single_time_of_a_decay_will_do(given: Any) -> None:
    assert encode(optimizers.StepDecay(at=given)) == encode(optimizers.StepDecay(at=(0.5,)))


def test_ends_of_ranges() -> None:
    for name, option, wrong in (
        ("Adam", "beta_1", 1.0),
        ("Adam", "beta_2", 1),
        ("Adam", "epsilon", 0.0),
        ("SGD", "momentum", 1.0),
        ("StepDecay", "at", (0.5, 30)),
        ("StepDecay", "by", 0.0),
        ("Geometric", "final", 0.0),
        ("Geometric", "final", 1.5),
        ("Cyclical", "cycles", 0),
        ("Cyclical", "exploration", 1.0),
        ("WarmUp", "until", 0.0),
        ("WarmUp", "initial", 1.5),
        ("ScaleMixture", "weight", 1.0),
        ("Normal", "scale", 0.0),
        ("UniformInit", "low", 2.0),
    ):
        refusal(name, option, wrong)
    for name, option, right in (
        ("Adam", "beta_1", 0.0),
        ("StepDecay", "at", (0.0, 1.0)),
        ("StepDecay", "at", ()),
        ("StepDecay", "by", 2.0),
        ("Polynomial", "power", 0.0),
        ("Polynomial", "decay", 0),
        ("Geometric", "final", 1.0),
        ("Cyclical", "exploration", 0.0),
        ("WarmUp", "until", 1.0),
        ("WarmUp", "initial", 1.0),
    ):
        made(name, **{option: right})


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
