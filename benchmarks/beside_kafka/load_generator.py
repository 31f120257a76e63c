"""Compiles and runs the load generator, `load.c`, against librdkafka as it comes inside the confluent-kafka wheel."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CFLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
TIME_LIMIT_S = 900

# What both brokers get. Queues are deep enough that the client never waits for itself, and shallow enough that what is
# still queued when the time is over does not outweigh what was sent.
PRODUCER_SETTINGS = {
    "acks": "all",
    "linger.ms": "5",
    "socket.nagle.disable": "true",
    "queue.buffering.max.messages": "300000",
    "queue.buffering.max.kbytes": "262144",
}
CONSUMER_SETTINGS = {
    "queued.min.messages": "1000000",
    "queued.max.messages.kbytes": "262144",
    "fetch.queue.backoff.ms": "1",
    "socket.nagle.disable": "true",
}
ONE_RECORD_A_REQUEST = {"linger.ms": "0", "batch.num.messages": "1", "queue.buffering.max.messages": "5000"}
NO_LINGER = {"linger.ms": "0"}


class LoadError(Exception):
    """A load could not be made or carried; the message is what the generator said."""


def librdkafka() -> Path:
    """The shared library inside the confluent-kafka wheel.

    Raises:
        LoadError: confluent-kafka is not installed, or not from a wheel.
    """
    spec = find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise LoadError("confluent-kafka is not installed")
    folder = Path(spec.origin).parent.parent / "confluent_kafka.libs"
    found = sorted(folder.glob("librdkafka*.so*"))
    if not found:
        raise LoadError(f"no librdkafka in {folder}; install confluent-kafka from its wheel")
    return found[0]


def compiled(name: str, build: Path, libraries: tuple[Path, ...] = (), flags: tuple[str, ...] = ()) -> Path:
    """The program made of `name`.c, compiled again only when a source is newer. `flags` come last: `-lssl`.

    Raises:
        LoadError: gcc is not there or refuses the source.
    """
    program = build / name
    source, sources = HERE / f"{name}.c", HERE.glob("*.[ch]")
    if program.exists() and all(each.stat().st_mtime <= program.stat().st_mtime for each in sources):
        return program
    build.mkdir(parents=True, exist_ok=True)
    command = ["gcc", *CFLAGS, "-o", str(program), str(source)]
    for library in libraries:
        command += [str(library), f"-Wl,-rpath,{library.parent}"]
    command += flags
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise LoadError("gcc was not found; install it (Debian: apt-get install gcc libc6-dev)") from None
    if done.returncode:
        raise LoadError(f"{name}.c does not compile: {done.stderr}")
    return program


def arguments_of(values: Mapping[str, object], settings: Mapping[str, str]) -> list[str]:
    """`--name value` of each value that is not None, `-X key=value` of each setting."""
    arguments = []
    for name, value in values.items():
        if value is not None:
            arguments += [f"--{name}", str(value)]
    for key, value in settings.items():
        arguments += ["-X", f"{key}={value}"]
    return arguments


@dataclass(frozen=True)
class LoadGenerator:
    """Runs of `load` against one broker."""

    program: Path
    bootstrap: str
    security: Mapping[str, str] = field(default_factory=dict)
    """Settings of librdkafka for how it comes to the broker."""

    def produce(self, topic: str, settings: Mapping[str, str] = {}, **values: object) -> dict[str, Any]:
        """As fast as it can: `size`, `count`, `seconds`, `partitions`."""
        return self._run("produce", topic, values, {**PRODUCER_SETTINGS, **settings})

    def consume(self, topic: str, settings: Mapping[str, str] = {}, **values: object) -> dict[str, Any]:
        """From the beginning, as fast as it can: `count`, `partitions`."""
        return self._run("consume", topic, values, {**CONSUMER_SETTINGS, **settings})

    def paced(
        self, topic: str, rate: int, seconds: float, skip_seconds: float, size: int, settings: Mapping[str, str] = {}
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """At a rate, while a consumer in another process reads: delays of acknowledgements, and end to end."""
        skip, count = int(rate * skip_seconds), int(rate * (seconds + skip_seconds))
        received = arguments_of({"count": count, "skip": skip}, {**CONSUMER_SETTINGS, **self.security})
        receiver = subprocess.Popen(
            [str(self.program), "receive", self.bootstrap, topic, *received],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert receiver.stdout is not None
        try:
            if receiver.stdout.readline() != "ready\n":
                raise LoadError(receiver.communicate()[1])
            values = {"rate": rate, "seconds": seconds + skip_seconds, "skip": skip, "size": size}
            acknowledged = self._run("paced", topic, values, {**PRODUCER_SETTINGS, **NO_LINGER, **settings})
            output, error = receiver.communicate(timeout=TIME_LIMIT_S)
            if receiver.returncode:
                raise LoadError(error)
        finally:
            receiver.kill()
            receiver.wait()
        return acknowledged, json.loads(output)

    def _run(self, mode: str, topic: str, values: Mapping[str, object], settings: Mapping[str, str]) -> dict[str, Any]:
        command = [str(self.program), mode, self.bootstrap, topic, *arguments_of(values, {**settings, **self.security})]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S)
        if done.returncode:
            raise LoadError(f"{mode} of {topic}: {done.stderr.strip() or f'exit code {done.returncode}'}")
        return json.loads(done.stdout)
