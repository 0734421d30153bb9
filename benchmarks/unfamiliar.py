"""How many unlike rows does `credo fit` flag, and how many ordinary ones? On real tables, by ways to be unlike.

Each table is cut in training rows and others. The others, which are ordinary, say how often an ordinary row is flagged;
then each of them is made unlike the training rows in one of five ways.

    python benchmarks/unfamiliar.py                              # all tables, three splits: about half an hour
    python benchmarks/unfamiliar.py --tables iris --rows 200     # a small one
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from credo.data.columns import CategoryColumn, NumericColumn
from credo.data.encoder import Encoder
from credo.tabular import TableRun, fit_table
from table_sets import load

TABLES = (
    *("wage", "hitters", "concrete", "deliveries", "credit", "churn", "jobs", "iris"),
    *("diabetes", "boston", "energy", "ames", "sacramento", "diamonds", "titanic", "attrition", "breast-cancer"),
)
"""The parts of the score were chosen on other splits of most of them, with an earlier network: none is untouched."""
WORD = "never seen before"


def ways(held: pd.DataFrame, trained: pd.DataFrame, encoder: Encoder, seed: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """The held-out rows as they are, and made unlike in one way after the other.

    Args:
        held: ordinary rows, (B,).
        trained: the training rows.
        encoder: of the table, which knows what its columns are.
        seed: of the columns and numbers that are drawn.
    """
    rng = np.random.default_rng(seed)
    numbers = [column.name for column in encoder.inputs if isinstance(column, NumericColumn)]
    words = [column.name for column in encoder.inputs if isinstance(column, CategoryColumn)]
    yield "ordinary", held
    if numbers:
        known = trained[numbers].apply(pd.to_numeric, errors="coerce").astype(float)
        plain = held.assign(**{name: pd.to_numeric(held[name], errors="coerce").astype(float) for name in numbers})
        spread = known.std().replace(0.0, 1.0)
        yield "all numbers + 3 sd", plain.assign(**{name: plain[name] + 3.0 * spread[name] for name in numbers})
        one, chosen = plain.copy(), rng.integers(len(numbers), size=len(plain))
        for number, name in enumerate(numbers):
            one.loc[chosen == number, name] = known[name].max() + 3.0 * spread[name]
        yield "one number 3 sd beyond the largest", one
        uniform = plain.copy()
        for name in numbers:
            uniform[name] = rng.uniform(known[name].min(), known[name].max(), len(plain))
        for name in words:
            uniform[name] = rng.choice(trained[name].dropna().unique(), len(plain))
        yield "uniform in the box of the data", uniform
        yield "all numbers + a million sd", plain.assign(**{name: plain[name] + 1e6 * spread[name] for name in numbers})
    if words:
        new, chosen = (
            held.assign(**{name: held[name].astype(object) for name in words}),
            rng.integers(len(words), size=len(held)),
        )
        for number, name in enumerate(words):
            new.loc[chosen == number, name] = WORD
        yield "a new category", new


def measure(name: str, rows: int, seed: int, epochs: int | None = None) -> dict[str, float]:
    """The part of the rows that is flagged, by the way in which they are unlike."""
    frame, target = load(name, rows)
    order = np.random.default_rng(seed).permutation(len(frame))
    cut = round(0.3 * len(frame))
    held, trained = (frame.iloc[np.sort(some)].reset_index(drop=True) for some in (order[:cut], order[cut:]))
    run: TableRun = fit_table(trained, target, seed=seed, test=0.05, epochs=epochs)
    told = ways(held.drop(columns=target), trained, run.encoder, seed)
    return {way: float(run.predict(changed)["unfamiliar"].mean()) for way, changed in told}


def table_of(results: Sequence[dict[str, object]]) -> str:
    """Means over tables, in percent, as Markdown."""
    frame = pd.DataFrame([{"table": row["table"], **row["flagged"]} for row in results])  # type: ignore[dict-item]
    each = 100.0 * frame.groupby("table", sort=False).mean()
    shown = pd.concat([each, each.mean().to_frame("mean").T])
    lines = ["| table | " + " | ".join(shown.columns) + " |", "|---" * (len(shown.columns) + 1) + "|"]
    for label, row in shown.iterrows():
        lines.append(f"| {label} | " + " | ".join("" if np.isnan(v) else f"{v:.1f}" for v in row) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", default=",".join(TABLES), help="names, with commas between them")
    parser.add_argument("--rows", type=int, default=1000, help="of a table, at most")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "unfamiliar.jsonl")
    wishes = parser.parse_args()
    wishes.out.parent.mkdir(exist_ok=True)
    done = [json.loads(line) for line in wishes.out.read_text().splitlines()] if wishes.out.exists() else []
    for seed in range(wishes.splits):
        for name in wishes.tables.split(","):
            if any((row["table"], row["seed"], row["rows"]) == (name, seed, wishes.rows) for row in done):
                continue
            done.append({"table": name, "seed": seed, "rows": wishes.rows, "flagged": measure(name, wishes.rows, seed)})
            with wishes.out.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    print(table_of([row for row in done if row["rows"] == wishes.rows]))


if __name__ == "__main__":
    main()
