"""From nothing to a secured cluster, with the commands of docs/security.md exactly as they stand there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.document import block_with
from tools.ports import adjacent_free_ports

pytestmark = pytest.mark.slow

DOCUMENT = "docs/security.md"
FILES, BROKERS, CLIENTS = "umask 077", "ottla serve --brokers 3", "ottla user add anna"
"""What its blocks are known by."""


class Reader:
    """Types the blocks of the document in an empty directory; the ports are free ones instead of 9092 and the next."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ports = {9092 + number: port for number, port in enumerate(adjacent_free_ports(3))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "OTTLA_USER_PASSWORD": "another-one"}

    def types(self, part: str) -> str:
        """Run the block with `part`, and what it shows."""
        return self.runs(*self._command(part))

    def runs(self, *command: str) -> str:
        """What a command shows that works."""
        done = self._run(command)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def fails(self, *command: str) -> str:
        """What a command says that does not work."""
        done = self._run(command)
        assert done.returncode != 0, done.stdout
        return done.stderr

    @contextmanager
    def serving(self, until: str) -> Iterator[None]:
        """The brokers, from when they or their log say `until` on."""
        process = subprocess.Popen(
            self._command(BROKERS),
            cwd=self.directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        try:
            said = ""
            while until not in said:
                line = process.stdout.readline()
                assert line, said
                said += line
            yield
        finally:
            process.terminate()
            process.communicate(timeout=300)

    def edit(self, name: str, change: str) -> None:
        """A line of sed for one of the files."""
        self.runs("sed", "-i", change, name)

    def _command(self, part: str) -> list[str]:
        lines = block_with(DOCUMENT, part, "sh")
        for written, port in self._ports.items():
            lines = lines.replace(f":{written}", f":{port}")
        only = f"exec {lines}" if lines.count("\n") == 1 else lines
        return ["bash", "-eu", "-c", only]

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """With the files of the first block."""
    made = Reader(tmp_path)
    made.types(FILES)
    return made


def test_three_brokers_with_tls_users_and_acls_from_nothing(reader: Reader) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in reader.directory.iterdir()}
    assert {name for name, mode in modes.items() if mode & 0o077} == set()
    with reader.serving("a cluster of 3 brokers is ready"):
        shown = reader.types(CLIENTS)
        assert "\nhello\n" in shown
        assert "every partition has a leader and all its replicas in sync" in shown
        anna = ("--command-config", "anna.properties")
        assert "User:anna may not CREATE" in reader.fails("ottla", "topic", "create", "other", *anna)
        for change, said in (
            ("s/another-one/a-guess/", "could not log in to localhost"),
            ("/truststore/d", "see ssl.truststore.location"),
            ("s/ca.pem/none.pem/", "ssl.truststore.location=none.pem: No such file"),
            ("s/SASL_SSL/SSL/", "if its listener asks for a login, set security.protocol to SASL_SSL"),
            ("/password/d", "needs sasl.username and sasl.password"),
        ):
            wrong = reader.runs("sed", change, "anna.properties")
            (reader.directory / "wrong.properties").write_text(wrong)
            assert said in reader.fails("ottla", "topic", "list", "--config", "wrong.properties")
    with reader.serving("a cluster of 3 brokers is ready"):  # without the file of the first users, which is gone
        assert "User:anna" in reader.runs("ottla", "acl", "list", "--config", "admin.properties")


def test_what_was_forgotten_is_said_with_what_to_do(reader: Reader) -> None:
    (reader.directory / "broker.pem").chmod(0o644)
    with reader.serving("run chmod 600 broker.pem"):
        pass
    (reader.directory / "broker.pem").chmod(0o600)
    (reader.directory / "users").unlink()
    with reader.serving("sasl.scram.users.file=users cannot be read: No such file"):
        pass
    reader.edit("server.properties", "/users.file/d")
    with reader.serving("nobody can log in: every listener asks for a SCRAM user, and the cluster has none"):
        pass


def test_a_broker_that_does_not_believe_the_certificate_of_another_says_so(reader: Reader) -> None:
    reader.edit("server.properties", "/truststore/d")
    with reader.serving("its certificate is not believed: unable to get local issuer certificate; see ssl.truststore"):
        pass
