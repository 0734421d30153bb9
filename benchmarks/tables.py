"""credo against other methods with error bars, on real tables: defaults against defaults, the same splits for all.

    pip install 'credo[app,bench]'
    export CREDO_DATA=...                          # a folder with the sets of UCI, where their sites are not reachable
    python benchmarks/tables.py                    # everything that has no row yet, one seed after the other
    python benchmarks/tables.py --methods credo hgb --tables yacht iris --seeds 1
    python benchmarks/table_page.py                # the page and the figure of the documentation

Every result is a line in `benchmarks/results/tables`, and a line that is there is not run again: remove a method's file
to run it anew. `--limit 0` uses all rows of large tables. Fit with one thread each: set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import subprocess
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import credo
from credo.data import Task
from credo.data.splits import split as split_rows
from credo.tabular import TableRun, fit_table
from table_peers import GP_ROWS, PEERS, Entry, Predict, Split
from table_rows import RESULTS, Row, read, write
from table_scores import LEVELS, Answer, ClassAnswer, NumberAnswer
from table_sets import TABLES, TableSet

HELD_OUT = 0.2
"""Part of the rows that is predicted."""
LIMIT = 1_000
"""Rows of a large table that are used, unless `--limit` says more."""
SEEDS = 5


def fit_credo(split: Split) -> Predict:
    """`credo.tabular.fit_table` with its defaults; it holds out the same rows by itself."""
    run = fit_table(split.frame, split.target, task=split.task, test=HELD_OUT, seed=split.seed)
    if run.predictions["row"].tolist() != (split.test + 1).tolist():
        raise RuntimeError("credo held out other rows than the benchmark: the comparison would not be fair")
    return lambda: _answer(run, split)


def _answer(run: TableRun, split: Split) -> Answer:
    rows = split.frame.iloc[split.test].drop(columns=split.target)
    if split.task is Task.CLASSIFICATION:
        found = run.predict(rows)
        return ClassAnswer(found[[f"probability_{name}" for name in split.classes]].to_numpy(np.float64))
    each = [run.predict(rows, level=1 - 2 * level) for level in LEVELS[:10]]
    ends = [found["lower"] for found in each] + [found["upper"] for found in reversed(each)]
    density = next(score.model for score in run.evaluation.scores if score.id == "log_likelihood")
    return NumberAnswer(each[0]["mean"].to_numpy(), np.stack(ends, axis=1), density)


OURS = Entry("credo", "credo", (Task.REGRESSION, Task.CLASSIFICATION), fit_credo)
METHODS = {"credo": OURS, "credo-before": OURS, **PEERS}
"""By name; `credo-before` is the same call, run from an older checkout, so it is only run when asked for."""


def divide(table: TableSet, seed: int, limit: int | None) -> Split:
    """The rows of a table to learn from and to predict: at random, for classes in proportion."""
    frame = table.frame(limit)
    labels = frame[table.target].astype(str) if table.task is Task.CLASSIFICATION else None
    parts = split_rows(len(frame), test=HELD_OUT, seed=seed, classes=labels)
    return Split(frame, table.target, table.task, parts.train, parts.test, seed)


def is_asked(method: str, table: TableSet, trained: int) -> bool:
    """Whether a method is for such a table."""
    return table.task in METHODS[method].tasks and (method != "gp" or trained <= GP_ROWS[table.task])


def measure(method: str, table: TableSet, seed: int, limit: int | None) -> Row:
    """Fit a method to one split of a table, and score its predictions."""
    split, entry = divide(table, seed, limit), METHODS[method]
    scores: dict[str, float | None] = {}
    failed, start = "", time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peers warn of their own convergence
            predict = entry.fit(split)
            seconds = time.process_time() - start
            scores = predict().scores(split.y[split.test])
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        seconds, failed = time.process_time() - start, f"{type(error).__name__}: {error}"
    return Row(
        method=method,
        table=table.name,
        seed=seed,
        limit=limit,
        source=table.source,
        rows=len(table.frame()),
        columns=split.frame.shape[1] - 1,
        trained=len(split.train),
        held_out=len(split.test),
        seconds=seconds,
        version=used_version(entry),
        scores=scores,
        failed=failed,
    )


def used_version(entry: Entry) -> str:
    """Of the package; of credo the commit, with a plus where the code was changed after it."""
    if entry is not OURS:
        return version(entry.package)
    git = ["git", "-C", str(Path(credo.__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "."], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return version("credo")
    return commit.stdout.strip() + "+" * bool(changed.stdout.strip())


def is_installed(entry: Entry) -> bool:
    """Whether its package is there."""
    if entry is OURS:
        return True
    try:
        version(entry.package)
    except PackageNotFoundError:
        return False
    return True


def missing(
    methods: list[str], tables: list[str], seeds: int, limit: int | None, folder: Path
) -> Iterator[tuple[str, TableSet, int]]:
    """What has no row yet, methods in turn: all tables with one seed, then with the next."""
    done = {(method, *row.key) for method in methods for row in read(method, folder)}
    for seed in range(seeds):
        for table in (TABLES[name] for name in tables):
            trained = len(divide(table, seed, limit).train)
            for method in methods:
                if is_asked(method, table, trained) and (method, table.name, seed, limit) not in done:
                    yield method, table, seed


def run(methods: list[str], tables: list[str], seeds: int, limit: int | None, folder: Path = RESULTS) -> None:
    """Measure what has no row yet."""
    for method in [each for each in methods if not is_installed(METHODS[each])]:
        print(f"{method} is left out: pip install 'credo[bench]' brings {METHODS[method].package}")
    installed = [each for each in methods if is_installed(METHODS[each])]
    for method, table, seed in missing(installed, tables, seeds, limit, folder):
        row = measure(method, table, seed, limit)
        write(row, folder)
        shown = row.failed or "  ".join(
            f"{name} {value:.4g}" for name, value in row.scores.items() if value is not None
        )
        print(f"{method:<16} {table.name:<17} seed {seed}  {row.seconds:7.1f} s  {shown}", flush=True)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    usual = [name for name in METHODS if name != "credo-before"]
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=usual)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=SEEDS, help="splits of each table")
    parser.add_argument("--limit", type=int, default=LIMIT, help="at most so many rows of a table; 0 for all")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where the rows are")
    asked = parser.parse_args()
    run(asked.methods, asked.tables, asked.seeds, asked.limit or None, asked.folder)


if __name__ == "__main__":
    main()
