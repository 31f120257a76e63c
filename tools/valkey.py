"""Valkey of Debian's backports, another server to compare with: unpacked in `.peers/valkey`, not installed."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tools.debian import PATIENTLY
from tools.peers import PEERS

SERVER: Final = PEERS / "valkey" / "usr" / "bin" / "valkey-server"
PACKAGES: Final = ("valkey-server", "valkey-tools")
KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
SOURCE: Final = f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {{release}}-backports main\n"


def install() -> Path:
    """See that there is a server; returns where. Raises RuntimeError with what went wrong."""
    if not SERVER.exists():
        with tempfile.TemporaryDirectory() as name:
            _fetch(Path(name))
    return SERVER


def _fetch(directory: Path) -> None:
    """Have apt-get bring the packages, with lists of its own: the system's sources stay as they are."""
    for each in ("lists/partial", "cache/archives/partial"):
        (directory / each).mkdir(parents=True)
    (directory / "sources.list").write_text(SOURCE.format(release=_release()))
    options = [
        *("-o", f"Dir::Etc::sourcelist={directory}/sources.list", "-o", "Dir::Etc::sourceparts=-"),
        *("-o", f"Dir::State::lists={directory}/lists", "-o", f"Dir::Cache={directory}/cache"),
        *("-o", "APT::Sandbox::User=root"),
    ]
    for arguments in (["update", "-qq"], ["download", "-qq", *PACKAGES]):
        _run(["apt-get", *PATIENTLY, *options, *arguments], directory)
    unpacked = directory / "unpacked"
    for package in sorted(directory.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(unpacked)], directory)
    target = PEERS / "valkey"
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(exist_ok=True)
    shutil.move(unpacked, target)


def _release() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME":
            return value.strip('"')
    raise RuntimeError("valkey is had for Debian only")


def _run(command: list[str], directory: Path) -> None:
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RuntimeError(f"valkey cannot be had: {error}") from error
    if done.returncode:
        raise RuntimeError(f"valkey cannot be had: {done.stderr.strip()}")
