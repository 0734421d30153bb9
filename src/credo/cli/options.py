"""What can be chosen at the command line, by name; nothing heavy is imported here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

METHODS = ("ensemble", "map", "dropout", "vi")
"""Methods of `credo fit`."""
COMPARED = (
    "map",
    "ensemble",
    "laplace",
    "swag",
    "vi",
    "dropout",
    "concrete",
    "sgld",
    "sghmc",
    "mclmc",
    "metropolis",
    "importance",
)
"""Methods of `credo compare`."""
NETWORKS = ("cnn", "lenet5", "resnet20", "resnet18", "wide-resnet")
"""Networks of `credo fit` on a folder of images."""
PROBLEMS = ("sine", "moons")
"""Problems of `credo compare`."""
IN_SCIKIT_LEARN = ("diabetes", "wine", "breast-cancer", "digits")
GENERATED = ("sine", "gap", "varying-noise", "two-moons", "blobs")
IN_FILES = ("mnist", "fashion-mnist", "cifar10", "notmnist", "mushroom")
UCI = ("boston", "concrete", "energy", "kin8nm", "naval", "power-plant", "protein", "wine-quality-red", "yacht")
DATA_SETS = (*IN_SCIKIT_LEARN, *GENERATED, *IN_FILES, *(f"uci-{name}" for name in UCI))
"""Data sets of `credo data`."""
PIXEL_LIKELIHOODS = ("auto", "bernoulli", "binarized", "continuous-bernoulli", "cross-entropy", "gaussian")
"""Likelihoods of `credo vae`."""
STDOUT = Path("-")
"""What a user writes for the standard output."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and JSON).")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]
RunFolder = Annotated[Path, typer.Argument(help="The folder that `credo fit` wrote.")]


def experiments() -> list[str]:
    """The experiments there are, by their folders."""
    folders = files("credo.experiments").iterdir()
    return sorted(f.name.replace("_", "-") for f in folders if f.joinpath("claims.toml").is_file())


def flowing(command: Callable[..., None]) -> str:
    """Help whose paragraphs are broken by the terminal alone; indented lines, which are examples, stay as they are.

    Examples:
        >>> def fit():
        ...     '''One
        ...     two.
        ...
        ...         credo fit
        ...     '''
        >>> flowing(fit)
        'One two.\\n\\n    credo fit'
    """
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else part.replace("\n", " ") for part in paragraphs)
