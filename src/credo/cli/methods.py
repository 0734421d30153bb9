"""`credo methods`: what there is, what each costs, and when to use it."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict, dataclass

from rich.text import Text

import credo.methods
from credo.cli.console import answers, tell
from credo.tabular.recipes import RECIPES


@dataclass(frozen=True)
class Advice:
    """What a person wants to know before choosing.

    Attributes:
        cost: of training and prediction, in units of one plain network.
        use: when it is the right choice.
        avoid: when it is not.
    """

    cost: str
    use: str
    avoid: str


@dataclass(frozen=True)
class MethodEntry:
    """A method.

    Attributes:
        name: at the command line; empty for a method of the library alone.
        python: its name in Python.
        what: what it is.
        advice: when to use it, and when not; None where nobody has written it.
    """

    name: str
    python: str
    what: str
    advice: Advice | None


IN_PYTHON = {"ensemble": "DeepEnsemble", "dropout": "MCDropout", "vi": "BayesByBackprop", "map": "MAP"}
"""The method behind each name of the command line."""

ADVICE = {
    "DeepEnsemble": Advice(
        "trains M networks side by side and predicts with M passes (M = 5); small ones cost little more than one",
        "first choice: robust, nothing to tune, error bars grow away from the data",
        "when M copies of a large network do not fit",
    ),
    "MCDropout": Advice(
        "one network; predicts with as many passes as draws",
        "you have a network with dropout already, or room for one network only",
        "rows far from the data must be recognized: its error bars depend on the run there",
    ),
    "BayesByBackprop": Advice(
        "one network with two numbers for each weight, steps two to three times as expensive",
        "a distribution over weights is wanted: pruning, few data, a prior that matters",
        "a large network and little time: it needs more epochs, and underfits with few",
    ),
    "MAP": Advice(
        "one network; predicts with one pass",
        "a baseline, or the noise alone is enough",
        "error bars for new kinds of rows are needed: it has none, and flags nothing",
    ),
    "ConcreteDropout": Advice(
        "one network, steps up to one and a half times as expensive; predicts with as many passes as draws",
        "dropout without guessing its rate, on a wide network",
        "a narrow network: the rates fall to zero there, and the error bars with them",
    ),
    "VariationalDropout": Advice(
        "one network, steps 1.2 times (correlated) to twice (an alpha for each weight) as expensive",
        "dropout without a rate to guess, for a network of your own",
        "a prior is something you know: its log-uniform prior replaces yours",
    ),
    "SparseVariationalDropout": Advice(
        "one network with two numbers for each weight, steps twice as expensive; the pruned network is far smaller",
        "a small network is wanted: most weights turn out to be noise and can be removed",
        "the best error bars are wanted rather than a small network",
    ),
    "MaximumLikelihood": Advice(
        "one network; predicts with one pass",
        "a plain network to compare with",
        "small data: nothing keeps it from overfitting",
    ),
    "BlackBoxVI": Advice(
        "one network with two numbers for each weight, many draws for each step",
        "the log density cannot be differentiated",
        "it can be: Bayes by Backprop has the far less noisy gradient",
    ),
    "HMC": Advice(
        "tens to hundreds of passes over all data, forward and back, for each draw",
        "a small network, and the posterior itself is wanted, to judge other methods by",
        "more than some ten thousand weights or rows, or minibatches",
    ),
    "NUTS": Advice(
        "as HMC, often more: its trajectories end by themselves",
        "as HMC, with nothing to set",
        "as HMC",
    ),
    "MCLMC": Advice(
        "some twenty passes over all data, forward and back, for each draw",
        "as HMC, several times faster; its small bias does not matter",
        "exactness is the point: no test corrects its steps, take MAMS",
    ),
    "MAMS": Advice(
        "tens of passes over all data, forward and back, for each draw",
        "as HMC: the motion of MCLMC, with a test that makes it exact",
        "as HMC",
    ),
    "Metropolis": Advice(
        "a pass over all data for each proposal",
        "some dozens of weights, or a density without a gradient",
        "more weights than that: HMC and NUTS converge, random walks do not",
    ),
    "SimulatedAnnealing": Advice(
        "a pass over all data for each proposal; one network in the end",
        "the best weights of a density with several peaks, or without a gradient",
        "error bars are wanted, or the network is large",
    ),
    "ImportanceSampling": Advice(
        "a pass over all data for each draw; the proposal comes from another method",
        "you have an approximate posterior already, and want to know how close it is",
        "the proposal is far from the posterior; it says so",
    ),
    "AnnealedImportanceSampling": Advice(
        "draws times temperatures times leapfrog steps, each a pass over all data, forward and back",
        "the evidence of a model is wanted, with its standard error",
        "predictions alone are wanted",
    ),
    "Laplace": Advice(
        "a pass over the data after training, with a pass back for each output; predicts with as many passes back",
        "a trained network is to get error bars, or networks are to be compared by their evidence",
        "better predictions are wanted: an ensemble gives them, Laplace leaves the network as it is",
    ),
    "SWAG": Advice(
        "as plain training, from the weights of a trained network on; keeps some thirty directions of the weights",
        "a trained network can be trained a little further, and is to get error bars without a second one",
        "there is no training step to spare: Laplace takes the network as it is",
    ),
    "SGLD": Advice(
        "as plain training; keeps as many networks as draws",
        "many data, and draws are wanted rather than a point",
        "the error bars must be exact: they depend on its step size",
    ),
    "SGHMC": Advice(
        "as SGLD, with a momentum for each weight",
        "as SGLD, where its small steps make no progress",
        "as SGLD",
    ),
    "Ensemble": Advice(
        "as its method, M times side by side",
        "several runs of any method, as one posterior",
        "when M copies do not fit",
    ),
}


def run(json_wanted: bool) -> None:
    """The work of `credo methods`."""
    found = entries()
    if json_wanted:
        answers().out(json.dumps([asdict(entry) for entry in found], indent=2, ensure_ascii=False))
        return
    console = answers()
    console.print("For tables: credo fit --method NAME\n", markup=False)
    said = False
    for entry in found:
        if not entry.name and not said:
            console.print("In Python alone: credo.fit(model, data, credo.methods.NAME(...))\n", markup=False)
            said = True
        console.print(
            Text(entry.name or entry.python, "bold") + Text(f"  credo.{entry.python}" * bool(entry.name), "dim")
        )
        advice = entry.advice
        tell(console, f"    {entry.what}", hang=4)
        lines = (f"cost:  {advice.cost}", f"use:   {advice.use}", f"avoid: {advice.avoid}") if advice else ()
        for line in lines:
            tell(console, f"    {line}", hang=11)
        console.print()


def entries() -> tuple[MethodEntry, ...]:
    """Every method: those with a name at the command line first, then all others of the library."""
    named = [_entry(name, IN_PYTHON.get(name, name)) for name in RECIPES]
    rest = [python for python in _public() if python not in IN_PYTHON.values()]
    return (*named, *(_entry("", python) for python in rest))


def _public() -> list[str]:
    """The methods of the library that a user can make, and functions that make one."""
    found = []
    for name in credo.methods.__all__:
        value = getattr(credo.methods, name)
        made = inspect.isclass(value) and issubclass(value, credo.methods.Method) and not inspect.isabstract(value)
        if made or inspect.isfunction(value):
            found.append(name)
    return found


def _entry(name: str, python: str) -> MethodEntry:
    value = getattr(credo.methods, python)
    return MethodEntry(name, python, (inspect.getdoc(value) or "").split("\n")[0], ADVICE.get(python))
