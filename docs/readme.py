"""Runs the commands of the README and puts what they print, and a picture of the report, where the README shows them.

    python docs/readme.py

The picture needs chromium; without it the old one stays.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "docs" / "assets" / "report.png"
BLOCK = re.compile(r"```text\n.*?```", re.DOTALL)
WIDTH, HEIGHT = 1100, 1120
COLUMNS = 120
FROM = "On rows it has never seen"
"""What is shown begins here: after the progress of training."""


def commands(page: str) -> list[list[str]]:
    """The `credo` commands of a page's sh blocks, in their order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    return [line for line in lines if line[:1] == ["credo"]]


def answers(folder: Path, page: str) -> dict[str, str]:
    """Standard output of each command of a page, run one after the other in a folder."""
    found = {}
    for words in commands(page):
        start = [sys.executable, "-c", "from credo.cli.main import main; main()"]
        run = subprocess.run([*start, *words[1:]], cwd=folder, capture_output=True, text=True, check=False)
        if run.returncode:
            raise RuntimeError(f"{shlex.join(words)} failed: {run.stderr}")
        found[shlex.join(words)] = run.stdout
    return found


def shown(answer: str) -> str:
    """The part of the answer of `credo fit` that the README shows."""
    lines = answer[answer.index(FROM) :].rstrip().splitlines()
    return "".join(fill(line, COLUMNS, subsequent_indent=" " * 8 if line[:1] == " " else "") + "\n" for line in lines)


def picture(report: Path) -> None:
    """The head of a report, as a browser shows it."""
    browser = shutil.which("chromium")
    if browser is None:
        print(f"there is no chromium here: {PICTURE.name} stays as it is")
        return
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    size = [f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={PICTURE}"]
    subprocess.run([browser, *options, *size, report.as_uri()], capture_output=True, check=True)
    print(PICTURE.relative_to(ROOT))


def main() -> None:
    page = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        answer = next(text for words, text in answers(Path(folder), page).items() if words.startswith("credo fit"))
        README.write_text(BLOCK.sub(lambda _: f"```text\n{shown(answer)}```", page), encoding="utf-8")
        print(README.name)
        picture(Path(folder).resolve() / "run" / "report.html")


if __name__ == "__main__":
    main()
