"""A JVM that runs the main methods of Kafka's tools and of our own Java classes, many in one process."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from tools import peers

HERE = Path(__file__).parent
TIME_LIMIT_S = 300
FLAGS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}",
)
TOOLS_JAR = "kafka-tools-"


@dataclass(frozen=True)
class Ended:
    """How one call ended. `lines` is its standard output without empty lines."""

    main: str
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.out.splitlines() if line.strip()]

    @property
    def facts(self) -> list[dict]:
        """What our own Java classes print: one JSON object a line."""
        return [json.loads(line) for line in self.lines]

    def ok(self) -> Ended:
        """Itself, after a look that it ended well and warned of nothing."""
        assert (self.code, self.err) == (0, ""), f"{self.main}: exit code {self.code}\n{self.out}\n{self.err}"
        return self


def compiled(folder: Path) -> str:
    """Compile the Java files beside this one into `folder`; the class path that has them and Kafka, without its tools.

    Raises:
        PeerUnavailableError: Kafka's jars cannot be had.
    """
    class_path = os.pathsep.join(map(str, [folder, *_jars(tools=False)]))
    sources = sorted(map(str, HERE.glob("*.java")))
    command = ["javac", "-Xlint:all,-processing", "-Werror", "-proc:none", "-d", str(folder), "-cp", class_path]
    done = subprocess.run([*command, *sources], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return class_path


def _jars(*, tools: bool) -> list[Path]:
    return [jar for jar in peers.kafka_jars() if jar.name.startswith(TOOLS_JAR) == tools]


def run_alone(main: str, *args: object) -> Ended:
    """Call `main` of a class in a JVM of its own: for tools that end themselves by shutdown hooks of the process."""
    command = ["java", *FLAGS, "-cp", os.pathsep.join(map(str, peers.kafka_jars())), main, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S)
    return Ended(main, done.returncode, done.stdout, done.stderr)


class Jvm:
    """One JVM. Calls may run side by side; each has its own standard input, output and error."""

    def __init__(self, folder: Path) -> None:
        self._ids = itertools.count()
        self._calls: dict[int, tuple[str, Future[Ended]]] = {}
        self.stderr = folder / "stderr"
        self.token = folder / "token"
        """A file that Kafka's clients may take a token from."""
        classes = folder / "classes"
        classes.mkdir()
        tools = f"-Dtools={os.pathsep.join(map(str, _jars(tools=True)))}"
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{self.token}"
        command = ["java", *FLAGS, "-cp", compiled(classes), tools, allowed, "Runner"]
        with self.stderr.open("w") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, main: str, *args: object, stdin: str = "") -> Future[Ended]:
        """Call `main` of a class with these arguments; the call goes on while others start."""
        number = next(self._ids)
        future: Future[Ended] = Future()
        self._calls[number] = (main, future)
        call = {"id": number, "main": main, "args": [str(arg) for arg in args], "input": stdin}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()
        return future

    def run(self, main: str, *args: object, stdin: str = "") -> Ended:
        """Call `main` of a class with these arguments and wait for its end."""
        return self.start(main, *args, stdin=stdin).result(TIME_LIMIT_S)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(TIME_LIMIT_S)
        self._reader.join(TIME_LIMIT_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            main, future = self._calls.pop(answer["id"])
            future.set_result(Ended(main, answer["code"], answer["out"], answer["err"]))
        for main, future in self._calls.values():
            future.set_exception(AssertionError(f"the JVM ended during {main}\n{self.stderr.read_text()}"))
