"""The report in a real browser: no complaint on its console, nothing loaded from outside, a layout that fits."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from credo.cli.main import app

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

OWN_HOSTS = ("google.com", "googleapis.com", "gstatic.com", "gvt1.com")
"""What the browser itself tries to reach; names are not resolved, so it never does."""
TWIN = """<!DOCTYPE html><title>a page that does it wrong</title>
<img src="http://elsewhere.example/picture.png"><p style="width: 900px">too wide</p><script>missing();</script>"""


class Visit:
    """What the browser did with a page."""

    def __init__(self, page: Path, folder: Path, *flags: str) -> None:
        assert CHROMIUM is not None
        log = folder / "net.json"
        done = subprocess.run(
            [
                *(
                    "timeout",
                    "-k",
                    "2",
                    "60",
                    CHROMIUM,
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-quic",
                ),
                *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
                *(
                    "--host-resolver-rules=MAP * ~NOTFOUND",
                    f"--user-data-dir={folder / 'profile'}",
                    "--hide-scrollbars",
                ),
                *(
                    "--virtual-time-budget=3000",
                    "--enable-logging=stderr",
                    f"--log-net-log={log}",
                    *flags,
                    page.as_uri(),
                ),
            ],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        self.code, self.dom = done.returncode, done.stdout
        self.console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
        hosts = set(re.findall(r'"url":"https?://([^/:"]+)', log.read_text(errors="replace")))
        self.hosts = {host for host in hosts if not host.endswith(OWN_HOSTS)}


@pytest.fixture(scope="module", params=["progression", "class"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    name = {"progression": "diabetes", "class": "wine"}[request.param]
    for arguments in (
        ["data", "get", name, "-o", f"{folder}/table.csv", "-q"],
        ["fit", f"{folder}/table.csv", "-t", request.param, "--out", f"{folder}/run", "--epochs", "5", "-q"],
    ):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    return folder / "run" / "report.html"


def test_the_browser_has_nothing_to_complain_about(report: Path, tmp_path: Path) -> None:
    visit = Visit(report, tmp_path, "--dump-dom")
    assert visit.code == 0
    assert visit.console == []
    assert visit.hosts == set()


def test_the_browser_sees_all_figures_with_their_text_alternatives(report: Path, tmp_path: Path) -> None:
    dom = Visit(report, tmp_path, "--dump-dom").dom
    figures = re.findall(r"<svg [^>]*>", dom)
    assert len(figures) >= 15
    assert all(re.search(r'role="img" aria-label="[^"]{30,}"', figure) for figure in figures)
    assert dom.count("<figcaption>") == len(figures)
    assert dom.count("<title>") > 100  # what appears beside marks


@pytest.mark.parametrize("flags", [(), ("--blink-settings=preferredColorScheme=0",)], ids=["light", "dark"])
def test_it_can_be_drawn_on_a_phone(report: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    picture = tmp_path / "phone.png"
    visit = Visit(report, tmp_path, "--window-size=390,3000", f"--screenshot={picture}", *flags)
    assert visit.code == 0
    assert picture.stat().st_size > 10_000


def test_it_can_be_printed(report: Path, tmp_path: Path) -> None:
    paper = tmp_path / "report.pdf"
    assert Visit(report, tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer").code == 0
    assert paper.read_bytes().startswith(b"%PDF")


def test_a_page_that_does_it_wrong_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "twin.html"
    page.write_text(TWIN)
    visit = Visit(page, tmp_path, "--dump-dom")
    assert visit.hosts == {"elsewhere.example"}
    assert any("missing is not defined" in line for line in visit.console)
