"""Whether the time of a refusal says why: a user that there is not, a password that is wrong, one that begins right.

    .venv/bin/python -m benchmarks.login_times [--attempts 10000]

Each pair of guesses is tried by turns, in random order, each on a connection of its own; what is timed is from the
guess to its refusal. The broker refuses at once (connection.failed.authentication.delay.ms=0): what the delay hides is
looked at without it. Welch's t is of the faster nine tenths; from 4.5 on the two can be told apart, and the
exit code is 1. The client that guesses is on the same host: nobody measures better.
"""

from __future__ import annotations

import argparse
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median, variance
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.broker import READY
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.scram import MECHANISMS
from ottla.security.scram_client import ScramClient

TOLD_APART: Final = 4.5
SLOWEST: Final = 0.1
"""The part of the times that is left out: others use the machine, too."""
PASSWORD: Final = "correct horse battery"
SETTINGS: Final = {
    "connection.failed.authentication.delay.ms": "0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_anna="{PASSWORD}";'
    ),
}


class Guess(NamedTuple):
    """A name and a password."""

    user: str
    password: str


class Pair(NamedTuple):
    """Two guesses that are to take as long as each other."""

    name: str
    attempt: Callable[[str, Guess], float]
    one: Guess
    other: Guess


def plain(address: str, guess: Guess) -> float:
    """The seconds of one message."""
    with _begun(address, "PLAIN") as connection:
        return _timed(connection, f"\0{guess.user}\0{guess.password}".encode())[1]


def scram(address: str, guess: Guess) -> float:
    """The seconds of both messages, without what the client calculates."""
    mechanism = MECHANISMS["SCRAM-SHA-512"]
    with _begun(address, mechanism.name) as connection:
        client = ScramClient(mechanism, guess.user, f"{random.getrandbits(128):032x}")
        answer, first = _timed(connection, client.first())
        client.challenged(_auth_bytes(answer))
        return first + _timed(connection, client.final(b"x" * 64))[1]


PAIRS: Final = (
    Pair("PLAIN: no such user, wrong password", plain, Guess("hugo", "guess"), Guess("anna", "guess")),
    Pair("PLAIN: the same, 4,000 characters", plain, Guess("hugo", "g" * 4_000), Guess("anna", "g" * 4_000)),
    Pair(
        "PLAIN: wrong from the first, from the last",
        plain,
        Guess("anna", "x" + PASSWORD[1:]),
        Guess("anna", PASSWORD[:-1] + "x"),
    ),
    Pair("SCRAM: no such user, wrong password", scram, Guess("hugo", ""), Guess("anna", "")),
)


@contextmanager
def _begun(address: str, mechanism: str) -> Iterator[socket.socket]:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(_framed(encode_request(1, "guess", SaslHandshakeRequest(mechanism), 1)))
        _answer(connection)
        yield connection


def _timed(connection: socket.socket, message: bytes) -> tuple[bytes, float]:
    data = _framed(encode_request(2, "guess", SaslAuthenticateRequest(message), 0))
    begun = time.perf_counter()
    connection.sendall(data)
    answer = _answer(connection)
    return answer, time.perf_counter() - begun


def _framed(request: bytes) -> bytes:
    """As `encode_request` gives it: with its length."""
    return request


def _answer(connection: socket.socket) -> bytes:
    received = connection.recv(65_536)
    while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
        more = connection.recv(65_536)
        if not more:
            raise ConnectionError("the broker hung up without a word")
        received += more
    return received


def _auth_bytes(answer: bytes) -> bytes:
    """Of version 0: length, correlation id, error code, error message, and the bytes with their length."""
    position = 10
    text = int.from_bytes(answer[position : position + 2], "big", signed=True)
    position += 2 + max(text, 0)
    size = int.from_bytes(answer[position : position + 4], "big")
    return answer[position + 4 : position + 4 + size]


def welch(one: list[float], other: list[float]) -> float:
    """Welch's t of two samples, without what is slower than nine tenths of both together."""
    limit = sorted(one + other)[int((len(one) + len(other)) * (1 - SLOWEST))]
    kept = [[time for time in each if time < limit] for each in (one, other)]
    spread = sum(variance(each) / len(each) for each in kept)
    return (fmean(kept[0]) - fmean(kept[1])) / spread**0.5


@contextmanager
def _broker(directory: Path) -> Iterator[str]:
    users = directory / "users"
    users.touch(0o600)
    users.write_text(f"SCRAM-SHA-512=[name=anna,password={PASSWORD}]\n")
    settings = {**SETTINGS, "listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.scram.users.file": str(users)}
    command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(directory / "data")]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        ready = READY.search(process.stdout.readline())
        if ready is None:
            sys.exit((directory / "log").read_text())
        yield ready[1].rstrip(",")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Measure all pairs and say what can be told apart."""
    parser = argparse.ArgumentParser(description="Whether the time of a refusal says why.")
    parser.add_argument("--attempts", type=int, default=10_000, help="of each guess")
    attempts = parser.parse_args().attempts
    table = Table("guesses", "median µs", "median µs", "Welch's t")
    worst = 0.0
    with tempfile.TemporaryDirectory() as directory, _broker(Path(directory)) as address:
        for pair in PAIRS:
            for guess in (pair.one, pair.other) * 200:
                pair.attempt(address, guess)  # until the broker is warm
            times: tuple[list[float], list[float]] = ([], [])
            for number in random.sample((0, 1) * attempts, 2 * attempts):
                times[number].append(pair.attempt(address, (pair.one, pair.other)[number]))
            t = welch(*times)
            worst = max(worst, abs(t))
            table.add_row(pair.name, *(f"{median(each) * 1e6:.1f}" for each in times), f"{t:+.2f}")
    Console().print(table)
    sys.exit(worst >= TOLD_APART)


if __name__ == "__main__":
    main()
