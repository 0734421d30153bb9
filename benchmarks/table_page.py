"""The page of the benchmark of tables: every number on it is written from the stored rows.

python benchmarks/table_page.py      # rewrites the blocks of docs/reproductions/tables.md, and the figure
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from credo.data import Task
from table_compare import (
    BEFORE,
    COVERAGE,
    MEASURES,
    OURS,
    SECONDS,
    TITLES,
    Duel,
    Measure,
    Results,
    best_peer,
    coverage,
    duel,
    gather,
)
from table_figure import draw
from table_sets import TABLES, Purpose

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FIGURE = DOCS / "reproductions" / "tables.md", DOCS / "assets" / "tables.png"
BLOCK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
REPORTED = (Purpose.REPORTING,)


def written(page: str, results: Results) -> str:
    """The page with all its blocks as the rows have them."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n{BLOCKS[match[2]](results).strip()}\n\n{match[3]}"

    return BLOCK.sub(block, page)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown, with numbers to the right."""
    if not rows:
        return "No table of this kind has been run with this version yet."
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _signed(value: float, measure: Measure) -> str:
    return f"{value:.2f}" if measure.by == "ratio" else f"{value:+.{measure.digits}f}"


def _how(measure: Measure) -> str:
    return "credo / peer" if measure.by == "ratio" else "credo - peer"


def best_peers(results: Results, task: Task, ours: str) -> str:
    """credo, new or old, against the best single peer of each measure: for reporting, for choosing, and on all."""
    rows = []
    for title, purposes in (("reporting", REPORTED), ("choosing", (Purpose.CHOOSING,)), ("all", tuple(Purpose))):
        names = results.tables(task, ours, purposes)
        if title == "all" and names == results.tables(task, ours, REPORTED):
            continue
        for measure in MEASURES[task]:
            found = best_peer(results, ours, names, measure)
            if found is not None:
                rows.append([f"{measure.title}, {len(names)} {title}", *_best(found, measure)])
    return table(
        ["measure, tables", "best single peer", "credo beside it", "wins, ties, losses", "worst for credo"], rows
    )


def _best(found: Duel, measure: Measure) -> list[str]:
    count = f"{found.wins}, {found.ties}, {found.losses}"
    center, worst = _signed(found.center, measure), _signed(found.worst_value, measure)
    return [TITLES[found.method], f"{_how(measure)} = {center}", count, f"{found.worst} ({worst})"]


def duels(results: Results, task: Task, ours: str) -> str:
    """credo against each method on the tables for reporting."""
    names, rows = results.tables(task, ours, REPORTED), []
    for method in results.methods(task):
        if method not in (ours, OURS):
            found = [(measure, duel(results, ours, method, names, measure)) for measure in MEASURES[task]]
            if any(each for _, each in found):
                rows.append([TITLES[method], *(_cell(each, measure) for measure, each in found)])
    return table(["against", *(f"{each.title}, {_how(each)}" for each in MEASURES[task])], rows)


def _cell(found: Duel | None, measure: Measure) -> str:
    if found is None:
        return ""
    return f"{_signed(found.center, measure)} ({found.wins}, {found.ties}, {found.losses})"


def scores(results: Results, task: Task, measure: Measure) -> str:
    """One score for every table and method; the best in bold, a star at tables for choosing."""
    methods, rows = results.methods(task), []
    for name in results.tables(task, BEFORE):
        found = [results.score(method, name, measure) for method in methods]
        known = [value for value in found if value is not None]
        best = {"lower": min, "higher": max}[measure.better](known) if measure.better else None
        rows.append([_starred(name), *("" if v is None else _shown(v, v == best) for v in found)])
    return table(["", *(TITLES[method] for method in methods)], rows)


def _starred(name: str) -> str:
    return f"{name} \\*" if TABLES[name].purpose is Purpose.CHOOSING else name


def _shown(value: float, best: bool) -> str:
    text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"**{text}**" if best else text


def all_scores(results: Results, task: Task) -> str:
    """A table for each measure, and for the time."""
    measures = [*MEASURES[task], *([COVERAGE] if task is Task.REGRESSION else []), SECONDS]
    parts = [f"**{each.title}**{_note(each)}\n\n{scores(results, task, each)}" for each in measures]
    return "\n\n".join(parts)


def _note(measure: Measure) -> str:
    return "" if measure.better is None else f" ({measure.better} is better)"


def coverages(results: Results, ours: str) -> str:
    """How often each method's intervals hold: the mean over tables, and the worst table with enough rows."""
    rows = []
    for method in results.methods(Task.REGRESSION):
        known = method != OURS or ours == OURS
        found = coverage(results, method, results.tables(Task.REGRESSION, ours)) if known else None
        if found is not None:
            worst = f"{found.lowest:.1%} ({found.worst})" if found.worst else ""
            rows.append([TITLES[method], f"{found.mean:.1%}", worst, f"{found.under} of {found.tables}"])
    return table(["", "mean over tables", "worst table with 100 held-out rows or more", "of these under 91 %"], rows)


def extent(results: Results) -> str:
    """How much of the benchmark the newest credo has been run on."""
    parts = []
    for task, kind in ((Task.REGRESSION, "numbers"), (Task.CLASSIFICATION, "classes")):
        done, known = results.tables(task, OURS), results.tables(task, BEFORE)
        parts.append(f"{len(done)} of {len(known)} tables of {kind}")
    splits = [len(rows) for (method, _), rows in results.rows.items() if method == OURS]
    fewest, most = min(splits, default=0), max(splits, default=0)
    each = f"{fewest} split(s) of each" if fewest == most else f"{fewest} to {most} splits of each"
    return f"**How far this goes.** These rows of credo are of {' and '.join(parts)}, with {each}."


def what_was_run(results: Results) -> str:
    """The tables with their sizes, purposes and splits."""
    rows = []
    for task in Task:
        for name in results.tables(task, BEFORE):
            one = results.rows[BEFORE, name]
            used = one[0].trained + one[0].held_out
            size = [str(one[0].rows), str(used), str(one[0].columns), str(len(one))]
            each = TABLES[name]
            rows.append([name, task.value, each.purpose.value, *size, f"{each.about}; {one[0].source}"])
    return table(["", "task", "for", "rows", "rows used", "columns", "splits", "what it is, and what carries it"], rows)


def versions(results: Results) -> str:
    """Of the packages, and the commits of credo."""
    found: dict[str, set[str]] = {}
    for (method, _), rows in results.rows.items():
        found.setdefault(method, set()).update(row.version for row in rows)
    parts = [f"{TITLES[method]} {', '.join(sorted(found[method]))}" for method in TITLES if method in found]
    return "Versions: " + "; ".join(parts) + "."


def failures(results: Results) -> str:
    """Methods that gave no answer."""
    failed = [row for rows in results.rows.values() for row in rows if row.failed]
    if not failed:
        return "No method failed on any split."
    each = [f"{TITLES[row.method]} on {row.table}, split {row.seed}: {row.failed}" for row in failed]
    return "Failed: " + "; ".join(each) + "."


BLOCKS: dict[str, Callable[[Results], str]] = {
    "best-numbers": lambda results: best_peers(results, Task.REGRESSION, OURS),
    "best-classes": lambda results: best_peers(results, Task.CLASSIFICATION, OURS),
    "before-numbers": lambda results: best_peers(results, Task.REGRESSION, BEFORE),
    "before-classes": lambda results: best_peers(results, Task.CLASSIFICATION, BEFORE),
    "duels-numbers": lambda results: duels(results, Task.REGRESSION, OURS),
    "duels-classes": lambda results: duels(results, Task.CLASSIFICATION, OURS),
    "coverage": lambda results: coverages(results, OURS),
    "coverage-before": lambda results: coverages(results, BEFORE),
    "scores-numbers": lambda results: all_scores(results, Task.REGRESSION),
    "scores-classes": lambda results: all_scores(results, Task.CLASSIFICATION),
    "extent": extent,
    "tables": what_was_run,
    "versions": versions,
    "failures": failures,
}


def main() -> None:
    """Rewrite the page and the figure."""
    results = gather()
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    draw(results, FIGURE)
    print(f"wrote {PAGE} and {FIGURE} from the rows of {', '.join({method for method, _ in results.rows})}")


if __name__ == "__main__":
    main()
