"""A Kafka Streams application in a process of its own, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

from tests.conformance.java.jvm import FLAGS
from tools import peers

HERE = Path(__file__).parent / "streams"
TIME_LIMIT_S = 300


def compiled(folder: Path) -> str:
    """Compile the applications into `folder`; the class path that has them and Kafka Streams.

    Raises:
        PeerUnavailableError: the jars cannot be had.
    """
    jars = [*peers.kafka_streams_jars(), *peers.kafka_jars()]
    class_path = os.pathsep.join(map(str, [folder, *jars]))
    sources = sorted(map(str, HERE.glob("*.java")))
    command = ["javac", "-Xlint:all,-processing", "-Werror", "-proc:none", "-d", str(folder), "-cp", class_path]
    done = subprocess.run([*command, *sources], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return class_path


class StreamsApplication:
    """One process of an application: `WordCount.java` says what it does."""

    def __init__(
        self, class_path: str, folder: Path, bootstrap: str, name: str, lines: str, counts: str, **properties: object
    ) -> None:
        self._log = folder / "stderr"
        self.states: list[str] = []
        self._changed = threading.Condition()
        command = ["java", *FLAGS, "-cp", class_path, "WordCount", bootstrap, name, lines, counts]
        command.append(f"state.dir={folder / 'state'}")
        command += [f"{key.replace('_', '.')}={value}" for key, value in properties.items()]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, state: str) -> StreamsApplication:
        """Wait until the application is in a state, or was since the last call."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: state in self.states or "(ended)" in self.states, TIME_LIMIT_S)
            assert arrived, f"{self.states}, not {state}\n{self._log.read_text()}"
            assert state in self.states, f"{self.states}, not {state}\n{self._log.read_text()}"
            self.states.clear()
        return self

    def close(self) -> None:
        """Let it end as it should: it leaves its group."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(TIME_LIMIT_S) == 0, self._log.read_text()
        self._reader.join(TIME_LIMIT_S)

    def kill(self) -> None:
        """As a crash."""
        self._process.kill()
        self._process.wait(TIME_LIMIT_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._note(line.strip())
        self._note("(ended)")

    def _note(self, state: str) -> None:
        with self._changed:
            self.states.append(state)
            self._changed.notify_all()
