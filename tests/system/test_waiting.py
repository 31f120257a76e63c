"""No command is silent: it says within 3 seconds what it waits for and what to check, and ends by its deadline."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from tests.hostile.raw_peer import RawPeer

OTTLA = [sys.executable, "-m", "ottla.cli"]
DEADLINE_S = 300

LIMIT_MS = "6000"
"""Twice the time after which something is said: a busy machine may say what it waits for itself before."""
SOON = ("-X", f"default.api.timeout.ms={LIMIT_MS}")
CONSUME = ("consume", "t", "--retry-timeout-ms", LIMIT_MS)
COMMANDS = {
    "consume": CONSUME,
    "member": (*CONSUME, "--group", "g"),
    "member of the new protocol": (*CONSUME, "--group", "h", "-X", "group.protocol=consumer"),
    "produce": ("produce", "t", "--timeout-ms", LIMIT_MS),
    "groups": ("group", "list", *SOON),
}
OTHERS = {
    "perf produce": ("perf", "produce", "t", "-n", "1", "-q", *SOON),
    "dead letters": ("dlq", "list", "t", *SOON),
    "perf consume": ("perf", "consume", "t", "-q", *SOON),
}


class Told(dict[str, tuple[int, list[str]]]):
    """Of each command the exit code and the lines on stderr."""


def run(bootstrap: str, commands: dict[str, tuple[str, ...]]) -> Told:
    """Run commands beside each other until all have ended by themselves."""
    env = {**os.environ, "OTTLA_BOOTSTRAP": bootstrap}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = {
        name: subprocess.Popen([*OTTLA, *arguments], env=env, **pipes)  # type: ignore[call-overload]
        for name, arguments in commands.items()
    }
    told = Told()
    try:
        for name, process in running.items():
            _, stderr = process.communicate(b"x\n", timeout=DEADLINE_S)
            told[name] = (process.returncode, stderr.decode().splitlines())
    finally:
        for process in running.values():
            process.kill()
    return told


def ok(bootstrap: str, *arguments: str) -> None:
    env = {**os.environ, "OTTLA_BOOTSTRAP": bootstrap}
    subprocess.run([*OTTLA, *arguments], env=env, timeout=DEADLINE_S, check=True, capture_output=True)


def expect(told: Told, what: str) -> None:
    """Each has said what it waits for, on a busy machine among other things, and at the end why it gave up."""
    for name, (code, lines) in told.items():
        assert code in (1, 3), (name, code, lines)
        waiting = [line for line in lines if line.startswith("ottla: waiting: ")]
        assert waiting, (name, lines)
        assert lines[-1].startswith("ottla: "), (name, lines)
        assert lines[-1] not in waiting, (name, lines)
        assert any(re.search(what, line) for line in waiting), (name, what, lines)
        assert re.search(what, lines[-1]), (name, what, lines)


@contextmanager
def silent_peer() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def make_coordinators(bootstrap: str) -> None:
    """Have the topic of groups made: a command that waits for it would say so."""
    with RawPeer(int(bootstrap.rpartition(":")[2])) as peer:
        wanted = FindCoordinatorRequest(coordinator_keys=("g",))
        wait_until(lambda: peer.ask(wanted, 6).coordinators[0].error_code == 0, "the coordinator of a group")


@contextmanager
def advertising(data: Path, address: str) -> Iterator[str]:
    """A broker that sends its clients elsewhere; where it listens."""
    command = [*OTTLA, "serve", "--data", str(data), "--kafka", "127.0.0.1:0", "--advertise", address]
    command += ["--set", "offsets.topic.num.partitions=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            ready = serving.stdout.readline()
            assert f" (advertised as {address}), data " in ready
            bootstrap = ready.split("kafka ")[1].split(" ")[0]
            make_coordinators(bootstrap)
            yield bootstrap
        finally:
            serving.terminate()


@pytest.mark.parametrize("what", ["refuses", "is silent", "has an unknown name"])
def test_an_advertised_address_that_cannot_be_reached_is_named(tmp_path: Path, what: str) -> None:
    with silent_peer() as silent:
        address = {"refuses": "127.0.0.1:1", "is silent": silent, "has an unknown name": "broker.invalid:9092"}[what]
        with advertising(tmp_path / "data", address) as bootstrap:
            ok(bootstrap, "topic", "create", "t")
            told = run(bootstrap, COMMANDS if what == "is silent" else {**COMMANDS, **OTHERS})
    expect(told, rf"{re.escape(address)}.* \(this is the advertised address of broker 1; `ottla serve --advertise")


def test_a_broker_that_stands_still_is_named(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    ok(broker.bootstrap, "topic", "create", "t")
    broker.pause()
    told = run(broker.bootstrap, COMMANDS)
    expect(told, re.escape(broker.bootstrap))


def test_a_leader_that_is_away_is_named(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(2, **{"offsets.topic.replication.factor": "1"}).start()
    cluster.wait_until_registered()
    cluster.create_topic("t", 1, replication_factor=1)
    leader = cluster.leader("t")
    [other] = [broker for broker in cluster.brokers.values() if broker is not leader]
    leader.kill()
    wait_until(lambda: not cluster.has_leaders("t"), "the end of the leader to be known")
    told = run(other.bootstrap, {name: COMMANDS[name] for name in ("consume", "produce")})
    expect(told, "t-0 has no leader")


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """No file may grow beyond 1 MiB: for the broker that is what a full disk is."""
    inside = ("bash", "-c", 'ulimit -f 1024; exec "$@"', "bash")
    with BrokerProcess(tmp_path / "data", {"log.index.size.max.bytes": "4096"}, inside=inside) as broker:
        ok(broker.bootstrap, "topic", "create", "t")
        env = {**os.environ, "OTTLA_BOOTSTRAP": broker.bootstrap}
        lines = b"".join(b"%01000d\n" % number for number in range(4_000))
        done = subprocess.run(
            [*OTTLA, "produce", "t", "-q", "--timeout-ms", LIMIT_MS],
            env=env,
            input=lines,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
    expect(
        Told(produce=(done.returncode, done.stderr.decode().splitlines())),
        "the data directory (is read-only|is offline): .*too large",
    )
