"""Several brokers from one command line: in one process, and in processes that one parent starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.client.admin.admin import NewTopic
from ottla.client.blocking import BlockingClient
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until

READY = re.compile(r"ready: kafka (\S+), data (\S+), in")


class Command:
    """`ottla serve` with options of the test."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.errors = directory / "stderr"
        command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(directory / "data"), *options]
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def lines(self, count: int) -> list[str]:
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline().rstrip() for _ in range(count)]
        assert all(lines), self.errors.read_text()
        return lines

    def end(self, signal_number: int = signal.SIGTERM) -> int:
        self.process.send_signal(signal_number)
        return self.process.wait(timeout=300)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    made: list[Command] = []

    def make(*options: str) -> Command:
        made.append(Command(tmp_path, "--kafka", "127.0.0.1:0", *options))
        return made[-1]

    yield make
    for command in made:
        if command.process.poll() is None:
            command.end()  # with the processes that it has started
        assert command.process.stdout is not None
        command.process.stdout.close()


@pytest.mark.parametrize("how", ["--brokers", "--processes"])
def test_brokers_of_one_command_are_ready_together_and_end_together(
    serve: Callable[..., Command], tmp_path: Path, how: str
) -> None:
    command = serve(how, "3")
    *of_each, of_all = command.lines(4)
    found = {each[2]: each[1] for line in of_each if (each := READY.search(line))}
    data = tmp_path / "data"
    directories = [str(data), *(str(data / "brokers" / number) for number in ("2", "3"))]
    assert sorted(found) == directories
    assert f"a cluster of 3 brokers is ready: kafka {','.join(found[each] for each in directories)}, in" in of_all
    with BlockingClient(found[directories[2]]) as client:
        client.create_topic(NewTopic("t", 1, 3))  # as soon as it is said to be ready
    assert command.end() == 0
    for number, directory in enumerate((data, data / "brokers" / "2", data / "brokers" / "3"), 1):
        assert f"node.id={number}\n" in (directory / "meta.properties").read_text()
        assert (directory / ".kafka_cleanshutdown").exists()
    lines = command.errors.read_text().splitlines()
    assert [line for line in lines if " WARNING " in line and " is fenced: " in line] == []


def test_a_broker_process_that_dies_is_said_and_the_others_go_on(serve: Callable[..., Command]) -> None:
    command = serve("--processes", "2")
    command.lines(3)
    children = Path(f"/proc/{command.process.pid}/task/{command.process.pid}/children").read_text().split()
    os.kill(int(children[1]), signal.SIGKILL)
    said = f"broker 2 (process {children[1]}) ended by SIGKILL; 1 still running"
    wait_until(lambda: said in command.errors.read_text(), said)
    assert command.end() == 1
    assert "1 of 2 brokers failed: broker 2" in command.errors.read_text()


def test_what_one_broker_left_goes_on_in_a_cluster(serve: Callable[..., Command], tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    identity = (tmp_path / "data" / "meta.properties").read_text()
    broker.stop()
    command = serve("--brokers", "2")
    command.lines(3)
    assert command.end() == 0
    assert (tmp_path / "data" / "meta.properties").read_text() == identity
    assert "node.id=2" in (tmp_path / "data" / "brokers" / "2" / "meta.properties").read_text()


def test_brokers_that_share_a_store_are_of_one_cluster(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(2).start()
    assert {cluster.metadata_of(at=each).cluster_id for each in cluster.brokers} == {cluster.metadata_of().cluster_id}


def test_a_broker_that_was_alone_becomes_one_of_several_when_another_joins(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 2)
    first, second = cluster.brokers[1], cluster.brokers[2]
    first.metadata, second.metadata = None, f"embedded:{first.data_dir}"
    del second.settings["node.id"]
    try:
        first.start()
        cluster.create_topic("before", replication_factor=1)
        second.start()
        cluster.wait_until_registered()
        cluster.create_topic("t", replication_factor=2)
        cluster.wait_until_in_sync("t", 2)
        cluster.leader("t").kill()
        cluster.start()
        cluster.wait_until_in_sync("t", 2)
        wait_until(lambda: cluster.has_leaders("before"), "whichever broker is asked to have heard of the other leader")
        assert cluster.stop() == [0, 0]
        assert "another broker has joined" in first.log_path.read_text()
    finally:
        cluster.kill()
