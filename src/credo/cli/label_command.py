"""What can be typed after `credo label`; nothing heavy is imported here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from credo.cli.options import Json, Quiet, Seed
from credo.data import Task


def label(
    pool: Annotated[Path, typer.Argument(help="A CSV or Parquet file with few labels or none, or a folder of images.")],
    ask: Annotated[int, typer.Option(min=1, metavar="<int>", help="Rows to ask for.")] = 20,
    target: Annotated[str, typer.Option("--target", "-t", help="Name of the column of labels.")] = "label",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the session.", show_default="POOL-labels")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method", "-m", help="ensemble, dropout or vi.", autocompletion=lambda: ["ensemble", "dropout", "vi"]
        ),
    ] = "ensemble",
    acquisition: Annotated[
        str,
        typer.Option(help="What makes a row worth asking for: batchbald, bald, entropy, random and others."),
    ] = "batchbald",
    task: Annotated[
        Task | None,
        typer.Option(
            metavar="<task>",
            help=f"{' or '.join(task.value for task in Task)}.",
            show_default="decided by the labels",
        ),
    ] = None,
    judge: Annotated[
        float, typer.Option(help="Part of the rows that is drawn at random, and judged by instead of learned from.")
    ] = 0.2,
    seed: Seed = 0,
    drop: Annotated[list[str] | None, typer.Option(help="A column not to learn from; may be repeated.")] = None,
    json_wanted: Json = False,
    quiet: Quiet = False,
) -> None:
    """Ask for the labels that tell most, a few at a time.

    Writes the rows to label to a file. Fill in their labels, as many as you like, and give the same command again: it
    takes the answers, learns from them, shows how good it is by now, and writes the next rows. The first ones, and a
    part of all later ones, are drawn at random; the score is that on these, since chosen rows are no fair sample.

    Nothing is lost: every answer is on disk before anything is trained, and the same command goes on wherever it was
    broken off. A label that was wrong is corrected by its line in the file.

    Exit code: 0 done, 2 something in the command or the files must change, 130 interrupted.

    Examples:

        credo label pool.csv --ask 20

        credo label pool.parquet --target diagnosis --drop name --acquisition bald

        credo label photos --ask 30 --out photo-labels

        credo fit pool-labels/labels.csv --target label
    """
    import_module("credo.cli.label").run(**locals())
