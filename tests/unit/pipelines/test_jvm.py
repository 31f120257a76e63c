"""What a session starts ends with it, also when it is interrupted before the JVM has said that it is ready."""

import os
import subprocess
from typing import Any

import pytest
from pyspark import java_gateway

from ottla.pipelines import jvm
from ottla.pipelines.jvm import Jvm

SCRIPT = ["sh", "-c", "sleep 1000 & echo $!; wait"]
"""As Spark's scripts are: a shell that waits for a process below it."""


def popen() -> Any:
    """What PySpark starts processes with."""
    return vars(java_gateway)["Popen"]


class Started:
    """Stands in for PySpark: starts a process, and is interrupted before it is ready."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self, conf, streams):
        self.process = popen()(self.command, stdout=subprocess.PIPE, **streams)
        self.process.stdout.readline()
        raise KeyboardInterrupt


def interrupted(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> tuple[Jvm, Started]:
    started, made = Started(command), Jvm()
    before = popen()
    monkeypatch.setattr(java_gateway, "launch_gateway", started)
    with pytest.raises(KeyboardInterrupt):
        made.launch(None, {})
    assert popen() is before
    return made, started


def test_what_was_started_before_the_interrupt_is_ended_with_all_below_it(monkeypatch):
    made, started = interrupted(monkeypatch, SCRIPT)
    assert os.getpgid(started.process.pid) == started.process.pid
    made.end()
    assert started.process.returncode == -15
    # The process below it has this open until it has ended.
    assert started.process.stdout.read() == b""
    made.end()


def test_one_that_does_not_listen_is_ended_by_force(monkeypatch):
    monkeypatch.setattr(jvm, "STOP_SECONDS", 0.01)
    made, started = interrupted(monkeypatch, ["sh", "-c", "trap '' TERM; echo $$; while :; do sleep 1000; done"])
    made.end()
    assert started.process.returncode == -9


def test_one_that_could_not_be_started_leaves_nothing_to_end():
    made = Jvm()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(java_gateway, "launch_gateway", lambda conf, streams: popen()(["/none"], **streams))
        with pytest.raises(FileNotFoundError):
            made.launch(None, {})
    made.end()
