"""What of franz-go, kafkajs, the Java client, go-redis, ioredis, nsqadmin, go-nsq and nsqjs is brought once."""

from __future__ import annotations

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.conformance.clients.program import ProgramClient
from tools.debian import require_packages
from tools.peers import PEERS, PeerUnavailableError, fetch, java_class_path

SOURCES = Path(__file__).resolve().parent.parent
BUILD_WITHIN_S = 900


def franz_go_program() -> Path:
    """The Go program, built when its sources are new.

    Raises:
        PeerUnavailableError: there is no Go, or its modules cannot be had.
        subprocess.CalledProcessError: our program does not compile.
    """
    return _built("franz-go", "go")


def go_redis_program() -> Path:
    """The Go program that drives go-redis; raises as `franz_go_program`."""
    return _built("go-redis", "redis_go")


def nsqadmin_program() -> Path:
    """NSQ's web interface, as it is; raises as `franz_go_program`."""
    return _built("nsqadmin", "nsqadmin_go", "github.com/nsqio/nsq/apps/nsqadmin")


def go_nsq_sources() -> Path:
    """The module of NSQ's Go client, with its tests; raises as `franz_go_program`."""
    _fetch("go-nsq", ["go", "mod", "download"], SOURCES / "go_nsq")
    asked = ["go", "list", "-m", "-f", "{{.Dir}}", "github.com/nsqio/go-nsq"]
    done = subprocess.run(asked, check=True, cwd=SOURCES / "go_nsq", capture_output=True, text=True)
    return Path(done.stdout.strip())


def chromium_program() -> str:
    """A browser that needs no screen. Raises PeerUnavailableError where none can be installed."""

    def found() -> str | None:
        names = ("chromium", "chromium-browser", "google-chrome")
        return next((path for name in names if (path := shutil.which(name)) is not None), None)

    try:
        require_packages("Chromium", lambda: found() is not None, "chromium")
    except RuntimeError as error:
        raise PeerUnavailableError(f"a browser: {error}") from error
    program = found()
    assert program is not None
    return program


def _built(peer: str, name: str, package: str = ".") -> Path:
    folder = _folder_of(name, ("*.go", "go.*"))
    program = folder / peer
    if not program.exists():
        _fetch(peer, ["go", "mod", "download"], SOURCES / name)
        subprocess.run(
            ["go", "build", "-o", str(program), package], check=True, cwd=SOURCES / name, timeout=BUILD_WITHIN_S
        )
    return program


def kafkajs_program() -> Path:
    """The main file of the JavaScript program, beside the packages it needs.

    Raises:
        PeerUnavailableError: there is no Node, or its packages cannot be had.
    """
    return _with_packages("kafkajs", "javascript")


def ioredis_program() -> Path:
    """The JavaScript program that drives ioredis; raises as `kafkajs_program`."""
    return _with_packages("ioredis", "redis_javascript")


def nsqjs_package() -> Path:
    """NSQ's JavaScript client with its tests, beside what they need; raises as `franz_go_program`."""
    return _with_packages("nsqjs", "nsqjs").parent / "node_modules" / "nsqjs"


def _with_packages(peer: str, name: str) -> Path:
    folder = _folder_of(name, ("*.js", "*.json"))
    if not (folder / "node_modules" / ".package-lock.json").exists():
        for source in [*(SOURCES / name).glob("*.js"), *(SOURCES / name).glob("package*.json")]:
            shutil.copy(source, folder)
        _fetch(peer, ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder)
    return folder / "main.js"


def _folder_of(name: str, patterns: tuple[str, ...]) -> Path:
    """A folder for what is built of sources, named by their contents."""
    digest = sha256()
    for source in sorted(path for pattern in patterns for path in (SOURCES / name).glob(pattern)):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    folder = PEERS / f"{name}-{digest.hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _fetch(peer: str, command: list[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise PeerUnavailableError(f"{peer}: {command[0]} was not found")
    said = fetch(command, folder)
    if said is not None:
        lines = said.strip().splitlines() or ["no word about it"]
        reason = next((line for line in lines if "error" in line), lines[-1])
        raise PeerUnavailableError(f"{peer}: {command[0]} could not bring what it needs: {reason}")


class FranzGoClient(ProgramClient):
    """All that the tests do with franz-go."""

    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    assignors = ("range", "roundrobin", "sticky", "cooperative-sticky")
    has_static_membership = True

    def __init__(self, broker: BrokerProcess) -> None:
        self.command = (str(franz_go_program()),)
        super().__init__(broker)


class KafkajsClient(ProgramClient):
    """All that the tests do with kafkajs."""

    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    assignors = ("roundrobin",)
    has_static_membership = False

    def __init__(self, broker: BrokerProcess) -> None:
        self.command = ("node", str(kafkajs_program()))
        super().__init__(broker)


class JavaCodecClient(ProgramClient):
    """Kafka's Java client, as far as writing and reading in each codec go; the rest of it is tested in `java/`."""

    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    assignors = ()
    has_static_membership = False

    def __init__(self, broker: BrokerProcess) -> None:
        source = SOURCES / "java_codecs" / "CodecProgram.java"
        self.command = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", java_class_path(), str(source))
        super().__init__(broker)
