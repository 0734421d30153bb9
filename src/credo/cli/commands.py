"""What can be typed after `credo`: arguments, options and help.

Nothing heavy is imported here, so that help, `--version` and completion are quick: the module of a command, which has a
function of the same arguments, is loaded when the command runs.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from credo.cli.data_command import data, data_get, data_list
from credo.cli.label_command import label
from credo.cli.options import (
    COMPARED,
    METHODS,
    NETWORKS,
    PROBLEMS,
    STDOUT,
    Json,
    Quiet,
    RunFolder,
    Seed,
    experiments,
)
from credo.cli.vae_command import vae
from credo.data import Task


def fit(
    table: Annotated[
        Path,
        typer.Argument(
            help="A CSV file (any separator, gzipped or not), a Parquet, Feather or Excel file, or a folder that has a "
            "folder of images for each class."
        ),
    ],
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Name of the column to predict.", show_default="tables need it")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method", "-m", help=f"{', '.join(METHODS)}; see: credo methods.", autocompletion=lambda: [*METHODS]
        ),
    ] = "ensemble",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the run.")] = Path("run"),
    task: Annotated[
        Task | None,
        typer.Option(
            metavar="<task>",
            help=f"{' or '.join(task.value for task in Task)}.",
            show_default="decided by the target",
        ),
    ] = None,
    test: Annotated[float, typer.Option(help="Part of the rows or images that is held out to judge the result.")] = 0.2,
    seed: Seed = 0,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="<int>",
            help="At most so many passes over the data; 30 % more, with a falling learning rate (cooling), follow "
            "where they help. For vi and for images: exactly so many.",
            show_default="as many as help",
        ),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column not to learn from; may be repeated.")] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="<column>",
            help="The column that says how much each row counts: a weight of two is a row that comes twice.",
            show_default="every row counts as one",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="<column>",
            help="Train on the past and test on the future: the column that orders the rows (dates or numbers).",
            show_default="rows are held out at random",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="<column>",
            help="Hold out whole groups, such as all rows of a patient: the column that names them.",
            show_default="each row by itself",
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help=f"Images: {', '.join(NETWORKS)}.", show_default="cnn", autocompletion=lambda: [*NETWORKS]),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            metavar="<int>", help="Images: height and width to learn from.", show_default="that of most, 16 to 64"
        ),
    ] = None,
    flip: Annotated[bool, typer.Option("--flip", help="Images: a mirrored image is of the same class.")] = False,
    false_alarms: Annotated[
        float | None,
        typer.Option(help="Images: part of ordinary ones for which the alarm may ring.", show_default="0.05"),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Images: where to compute, such as cuda.", show_default="cpu")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted training.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a run that lies in the folder.")] = False,
    json_wanted: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn from a table or a folder of images, and say how far the predictions can be trusted.

    Finds out what the columns are, holds some rows out, trains a neural network with error bars, judges it by the
    held-out rows, and writes a folder with the posterior and a report for people (report.html). Ctrl-C loses nothing:
    the same command with --resume continues where it stopped, to the same numbers.

    Of a folder such as photos, with photos/cat and photos/dog in it, it learns to tell cats from dogs, and chooses when
    an image that is neither rings the alarm. This needs Pillow, of the extra named images.

    Exit code: 0 done, 1 it could not be done, 2 something in the command or the file must change, 130 interrupted.

    Examples:

        credo fit diabetes.csv --target progression

        credo fit patients.parquet -t outcome --drop name --out patients-run

        credo fit survey.csv -t income --weights weight

        credo fit sales.csv -t sold --time date

        credo fit visits.csv -t outcome --group patient

        credo fit photos --out photos-run

        credo fit wine.csv -t quality --task classification --json --quiet
    """
    _run("fit", **locals())


def predict(
    run: RunFolder,
    table: Annotated[
        list[Path],
        typer.Argument(
            help="A table (CSV, Parquet, Feather, Excel) with the columns of the training table; images, or folders."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV file to write; - for the standard output.")] = STDOUT,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    risk: Annotated[float, typer.Option(help="Classes: part of mistakes among decided rows that you accept.")] = 0.05,
    costs: Annotated[
        Path | None,
        typer.Option(
            help="Classes: a table of what each action (rows) costs in each class (columns).", show_default=False
        ),
    ] = None,
    ask: Annotated[
        float | None, typer.Option(help="With --costs: what it costs to leave a row to a person.", show_default=False)
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            help="Numbers: leave rows to a person whose interval, from lower to upper, is wider than this.",
            show_default="none is left",
        ),
    ] = None,
    with_inputs: Annotated[bool, typer.Option("--with-inputs", help="Write the columns of the table too.")] = False,
    json_wanted: Annotated[bool, typer.Option("--json", help="Write JSON instead of CSV, one object per row.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and the predictions).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that --out names.")] = False,
) -> None:
    """Predict new rows or images with error bars, and flag those unlike the training data.

    Numbers: mean, stddev, lower, upper, epistemic, aleatoric (variances that add up to stddev squared); with --within
    also abstain, where the interval is wider.

    Classes: label, a probability for each class, epistemic, aleatoric (entropies in nats), and abstain, which says that
    the model should not decide this row if at most --risk of its decisions may be wrong (this holds with a probability
    of 90 %, and takes held-out rows: 45 for a risk of 0.05, 230 for 0.01; where they are too few, training rows, each
    as predicted by networks that had not seen it, promise it less strictly, and the answer says so). With --costs and
    --ask there are action and expected_cost too, and abstain says that asking is expected to cost less than the best
    action.

    Both: unfamiliar (a flag) and unfamiliarity (a score). The flag is set where the score is above 1: where the
    networks disagree more about the row, it lies farther from all training rows, a number farther beyond all known
    ones, or a category is less to be expected, than for 99 in 100 training rows, each looked at as if it were new. It
    is also set where a cell is infinite, or is missing or cannot be read in a column that was complete in training.

    Images: file, label, its probability, doubt (an entropy in nats), alarm, and why it rings: unsure, unlike the
    training images, not readable. Then a probability for each class, epistemic, aleatoric, and distance to the training
    images.

    Exit code: 0 done, 1 it could not be done, 2 something in the command or the files must change.

    Examples:

        credo predict run new.csv -o predictions.csv

        credo predict photos-run new-photos more/1.jpg -o answers.csv

        credo predict run new.csv --level 0.8 --with-inputs > predictions.csv

        credo predict run patients.csv --costs costs.csv --ask 0.3

        credo predict run new.csv --risk 0.01 --json | jq '.[] | select(.abstain)'
    """
    _run("predict", **locals())


def report(run: RunFolder, json_wanted: Json = False, quiet: Quiet = False) -> None:
    """Write the report of a run again, and print a summary of it.

    The page is one HTML file that needs nothing else. It is made from the numbers in the folder.

    Examples:

        credo report run

        credo report run --json
    """
    _run("report", **locals())


def methods(json_wanted: Json = False) -> None:
    """What methods there are, what each costs and when to use it.

    The first ones have a short name for `credo fit`; all of them are there in Python.

    Examples:

        credo methods
    """
    _run("methods", **locals())


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for all that is made.")] = Path("runs/demo"),
    seed: Seed = 0,
) -> None:
    """Fit a real table, look at the report, predict new rows, one of them absurd, and draw the sine.

    The table is scikit-learn's diabetes set: ten measurements of 442 patients, and how their disease progressed.

    Examples:

        credo demo --out runs/demo
    """
    _run("demo", **locals())


def compare(
    name: Annotated[
        str,
        typer.Argument(
            help=f"Which problem: {', '.join(PROBLEMS)}, or a CSV file.", autocompletion=lambda: [*PROBLEMS]
        ),
    ],
    target: Annotated[str | None, typer.Option("--target", "-t", help="Column to predict, for a file.")] = None,
    methods: Annotated[
        str, typer.Option(help=f"Some of {', '.join(COMPARED)}, separated by commas.", show_default="all of these")
    ] = ",".join(COMPARED),
    draws: Annotated[
        int | None, typer.Option(help="Draws of each of the judge's four chains.", show_default="500; quick: 30")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A short judge and short runs, for a first look.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for all that is made.", show_default="runs/compare-NAME")
    ] = None,
    seed: Seed = 0,
    json_wanted: Json = False,
    quiet: Quiet = False,
) -> None:
    """Hold methods against a judge: a long run of Hamiltonian Monte Carlo on the same model and data.

    Prints how far each method's predictions are from the judge's, and what it costs; says whether the judge itself has
    converged; draws the predictions of each. The judge's run is saved as it goes: after Ctrl-C the same command
    continues it, and when it is done it is not repeated.

    Exit code: 0 done, 1 done and the judge has not converged (with --quick it never has, and that is 0), 2 something in
    the command must change.

    Examples:

        credo compare sine

        credo compare moons --methods ensemble,vi --quick

        credo compare sine --draws 2000 --out runs/long --json

        credo compare diabetes.csv --target progression --quick
    """
    _run("compare", **locals())


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Which experiment; without it, all are listed.",
            autocompletion=experiments,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller version, for a first look.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for figures and numbers.", show_default="runs/NAME")] = None,
    seed: Seed = 0,
    json_wanted: Json = False,
    quiet: Quiet = False,
) -> None:
    """Repeat a published experiment, and compare our numbers with its claims.

    Prints tables and a verdict on every claim, and writes figures, outcome.json and summary.md to the folder.

    Exit code: 0 no claim is refuted, 1 some claim is, 2 something in the command must change.

    Examples:

        credo reproduce

        credo reproduce sine --quick

        credo reproduce coin --out runs/coin --seed 3 --json
    """
    _run("reproduce", **locals())


COMMANDS: dict[str, Callable[..., None]] = {
    command.__name__: command for command in (fit, predict, label, report, methods, vae, data, demo, compare, reproduce)
}
"""Every command, in the order of the help."""
SUBCOMMANDS: dict[str, Callable[..., None]] = {"list": data_list, "get": data_get}
"""Those of `credo data`."""


def _run(module: str, function: str = "run", /, **arguments: Any) -> None:
    """Do the work of a command."""
    getattr(import_module(f"credo.cli.{module}"), function)(**arguments)
