"""The program as the system sees it: pipes, signals, limits, exit codes, and no traceback ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from credo.tabular import open_run

CREDO = [sys.executable, "-m", "credo.cli.main"]
PATIENCE = 300
"""Seconds after which a test gives up; nothing here takes a tenth of it on an idle machine."""


def program(folder: Path, *arguments: object, **how: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    return subprocess.run(
        [*CREDO, *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **how,  # type: ignore[call-overload]
    )


def test_a_pipe_will_do_so_no_table_is_read_twice(tmp_path: Path, table: pd.DataFrame) -> None:
    """What comes out of a pipe is gone: a second look at a large file would find nothing."""
    content = table.to_csv(index=False).encode()
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    done = program(tmp_path, "fit", pipe, "-t", "y", "--epochs", 2, "--quiet")
    writer.join()
    assert (done.returncode, done.stderr) == (0, "")
    assert open_run(tmp_path / "run").metadata.rows == len(table)


def interrupted(folder: Path) -> tuple[int, str]:
    """Start a long training, press Ctrl-C when it is under way, and see how it ends."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    arguments = [*CREDO, "fit", "large.csv", "-t", "y", "--epochs", "100000"]
    with subprocess.Popen(
        arguments, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        seen = ""
        while "epochs" not in seen:
            seen += process.stderr.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        seen += process.stderr.read()
        return process.wait(PATIENCE), seen


def test_ctrl_c_ends_it_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    pd.DataFrame({"x": x, "y": np.sin(3.0 * x) + 0.1 * rng.normal(size=len(x))}).to_csv(
        tmp_path / "large.csv", index=False
    )
    code, said = interrupted(tmp_path)
    assert code == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert "--resume" in said
    assert {path.name for path in tmp_path.iterdir()} == {"large.csv", "run.training"}
    again = program(tmp_path, "fit", "large.csv", "-t", "y")
    assert (again.returncode, "--resume" in again.stderr, "--force" in again.stderr) == (2, True, True)


@pytest.mark.parametrize("spare", [True, False])
def test_a_disk_that_turns_out_full_is_a_failure_and_the_run_is_saved_elsewhere(
    tmp_path: Path, table: pd.DataFrame, spare: bool
) -> None:
    """A limit on the size of files stands for the disk; with a spare folder it is lifted for the second attempt."""
    table.to_csv(tmp_path / "table.csv", index=False)
    code = f"""
import resource, signal, sys, tempfile
from credo.cli import main
from credo.tabular import saving as command
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
write, make = command.save_run, tempfile.mkdtemp
def on_a_full_disk(*what):
    if command.save_run is on_a_full_disk:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
        command.save_run = write
    return write(*what)
command.save_run = on_a_full_disk
def elsewhere(**how):
    if {spare}:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return make(**how)
tempfile.mkdtemp = elsewhere
sys.argv = ["credo", "fit", "table.csv", "-t", "y", "--epochs", "2", "-q"]
main.main()
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert "run cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
    rescued = list(tmp_path.glob("credo-*/run"))
    if spare:
        assert open_run(rescued[0]).metadata.rows == len(table)
        assert str(rescued[0]) in done.stderr
    else:
        assert rescued == []
        assert "--resume" in done.stderr
        assert program(tmp_path, "fit", "table.csv", "-t", "y", "--epochs", 2, "-q", "--resume").returncode == 0
        assert open_run(tmp_path / "run").metadata.rows == len(table)
        assert not (tmp_path / "run.training").exists()


def test_a_reader_that_leaves_is_nobodys_mistake(tables: Path) -> None:
    """As with `credo predict ... | head -1`."""
    table = tables / "many.csv"
    pd.DataFrame({"x": np.zeros(20_000), "z": np.zeros(20_000)}).to_csv(table, index=False)
    arguments = [*CREDO, "predict", str(tables / "y-run"), str(table)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("mean,")
        process.stdout.close()
        said = process.stderr.read()
        process.wait(PATIENCE)
    assert "Traceback" not in said


def test_a_mistake_of_ours_is_a_sentence_too(tmp_path: Path) -> None:
    code = """
import sys
from credo.cli import main, methods
methods.RECIPES = None
sys.argv = ["credo", "methods"]
main.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert "should not have happened (TypeError" in done.stderr
    assert "Traceback" not in done.stderr
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "CREDO_DEBUG": "1"},
    )
    assert "Traceback" in shown.stderr
