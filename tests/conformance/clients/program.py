"""Clients of other languages: a program that takes commands as lines of JSON and answers with lines of JSON."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from threading import Timer
from typing import Any

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import BEGINNING, PATIENCE_S, Record

ANSWER_WITHIN_S = 2 * PATIENCE_S
"""A program that is silent for so long is killed, and the test fails with what it said last."""


class RefusedError(Exception):
    """The program answered with an error, which is the message."""


class Program:
    """The process and its handles."""

    def __init__(self, command: Sequence[str], bootstrap: str, security: Path | None = None) -> None:
        """`security` is a file that says how the broker is spoken to where that is not in plaintext."""
        arguments = [*command, bootstrap, *([] if security is None else [str(security)])]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.handles = count()

    def call(self, op: str, **fields: Any) -> Any:
        """Run one operation; its result. Raises RefusedError."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        self.process.stdin.flush()
        watch = Timer(ANSWER_WITHIN_S, self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        assert line, f"the program ended with {self.process.wait()} at {op} {fields}"
        answer = json.loads(line)
        if "error" in answer:
            raise RefusedError(answer["error"])
        return answer["ok"]

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0
        self.process.stdout.close()


def encoded(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def record_of(given: dict[str, Any]) -> Record:
    headers = tuple((header["name"], decoded(header["value"]) or b"") for header in given["headers"])
    return Record(
        given["partition"],
        decoded(given["key"]),
        decoded(given["value"]),
        headers,
        given["timestamp"],
        given["offset"],
    )


class ProgramConsumer:
    """A consumer of a program: it reads all the time, and is polled for what it has read."""

    def __init__(self, program: Program, op: str, **fields: Any) -> None:
        self.program = program
        self.handle = f"{op}-{next(program.handles)}"
        self.call(op, **fields)

    def call(self, op: str, **fields: Any) -> Any:
        return self.program.call(op, handle=self.handle, **fields)

    def close(self) -> None:
        self.call("close")


class ProgramReader(ProgramConsumer):
    """Reads all partitions of a topic."""

    def __init__(self, program: Program, topic: str, partitions: int, start: int) -> None:
        super().__init__(program, "reader", topic=topic, partitions=list(range(partitions)), start=start)

    def poll(self) -> list[Record]:
        return [record_of(each) for each in self.call("poll")["records"]]

    def seek(self, partition: int, offset: int) -> None:
        self.call("seek", partitions=[partition], offset=offset)

    def pause(self, partition: int) -> None:
        self.call("pause", partitions=[partition])

    def resume(self, partition: int) -> None:
        self.call("resume", partitions=[partition])


class ProgramMember(ProgramConsumer):
    """A member of a group."""

    def __init__(self, program: Program, group: str, topic: str, assignor: str, instance_id: str) -> None:
        super().__init__(program, "member", group=group, topic=topic, assignor=assignor, instance_id=instance_id)
        self.rebalances = 0
        self._assignment: set[int] = set()

    def poll(self) -> list[bytes]:
        answer = self.call("poll")
        self.rebalances = answer["rebalances"]
        self._assignment = set(answer["assignment"])
        return [decoded(each["value"]) or b"" for each in answer["records"]]

    def assignment(self) -> set[int]:
        return self._assignment

    def commit(self, metadata: str = "") -> None:
        self.call("commit", metadata=metadata)


class ProgramClient:
    """All that the tests do with such a program."""

    note_ends_with = ""
    late_time_is_end = True
    command: tuple[str, ...]

    def __init__(self, broker: BrokerProcess) -> None:
        self.program = Program(self.command, broker.bootstrap)

    def produce(
        self, topic: str, records: Sequence[Record], *, acks: str = "all", idempotent: bool = False, codec: str = "none"
    ) -> list[int]:
        given = [
            {
                "partition": record.partition,
                "key": encoded(record.key),
                "value": encoded(record.value),
                "headers": [{"name": name, "value": encoded(value)} for name, value in record.headers],
                "timestamp": record.timestamp_ms,
            }
            for record in records
        ]
        return self.program.call("produce", topic=topic, records=given, acks=acks, idempotent=idempotent, codec=codec)

    def reader(self, topic: str, partitions: int = 1, start: int = BEGINNING) -> ProgramReader:
        return ProgramReader(self.program, topic, partitions, start)

    def ends(self, topic: str) -> tuple[int, int]:
        low, high = self.program.call("ends", topic=topic)["0"]
        return low, high

    def offsets_for_times(self, topic: str, times: Sequence[int]) -> list[int]:
        return self.program.call("offsets_for_times", topic=topic, times=list(times))

    def member(self, group: str, topic: str, assignor: str, instance_id: str = "") -> ProgramMember:
        return ProgramMember(self.program, group, topic, assignor, instance_id)

    def close(self) -> None:
        self.program.close()
