"""What can be typed after `credo vae`; nothing heavy is imported here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from credo.cli.options import PIXEL_LIKELIHOODS, Json, Quiet, Seed


def vae(
    images: Annotated[Path, typer.Argument(help="An npz or npy file, or a folder of pictures of one size.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the run.")] = Path("vae-run"),
    latent: Annotated[int, typer.Option(min=1, help="Latent dimensions; 2 gives a map of the images.")] = 20,
    likelihood: Annotated[
        str,
        typer.Option(help=f"Of pixels: {', '.join(PIXEL_LIKELIHOODS)}.", autocompletion=lambda: [*PIXEL_LIKELIHOODS]),
    ] = "auto",
    epochs: Annotated[
        int | None,
        typer.Option(min=1, metavar="<int>", help="Passes over the images.", show_default="about 10,000 steps"),
    ] = None,
    test: Annotated[
        float, typer.Option(help="Part of the images that is held out, where the file does not say which.")
    ] = 0.1,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted training.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a run that lies in the folder.")] = False,
    json_wanted: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn a variational autoencoder of images, with a report.

    Of an npz file, x holds the images and y, if there is one, their classes, which color the pictures and are not
    learned from; x_test and y_test are held out. In a folder, pictures of a class may lie in a folder of their own.
    The report shows reconstructions, new images, the latent space and what each of its dimensions carries. Ctrl-C
    loses nothing: the same command with --resume continues where it stopped, to the same numbers.

    Exit code: 0 done, 1 it could not be done, 2 something in the command or the images must change, 130 interrupted.

    Examples:

        credo vae images.npz

        credo vae pictures/ --latent 2 --out map

        credo vae mnist.npz --likelihood binarized
    """
    import_module("credo.cli.vae").run(**locals())
