"""A pipeline that copies numbers to a topic and to a Delta table, and where each of them must be once."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

from deltalake import DeltaTable

from ottla.client.blocking import BlockingClient
from tests.system.test_pipelines import Broker

_names = count()


def new_name() -> str:
    """Of topics and a pipeline that no other test has."""
    return f"numbers{next(_names)}"


class Numbers:
    """A pipeline that copies numbers to a topic and to a table; what is none goes to the dead letters."""

    def __init__(self, directory: Path, bootstrap: str, *, at_once: int = 100, step: str = "", more: str = "") -> None:
        self.name = new_name()
        self.there = Broker(bootstrap)
        self.directory = directory
        self.file = directory / "numbers.toml"
        self.there.create(*(f"{self.name}.{what}" for what in ("in", "out", "dead")))
        self._text = """
name = "NAME"
[sources.events]
topics = ["NAME.in"]
format = "json"
schema = "n int"
group = "NAME"
max_records = AT_ONCE
SOURCE
STEP
[[sinks]]
name = "out"
topic = "NAME.out"
OUT
[[sinks]]
name = "lake"
delta = "lake"
LAKE
[dead_letters]
topic = "NAME.dead"
"""
        self._fields = {"NAME": self.name, "STEP": step, "SOURCE": "", "OUT": "", "LAKE": "", "AT_ONCE": str(at_once)}
        self.write()

    def write(self, **fields: str) -> None:
        """The file, with other words in some places."""
        self._fields.update(fields)
        text = self._text
        for name, value in self._fields.items():
            text = text.replace(name, value)
        self.file.write_text(text)

    def produce(self, numbers: range) -> None:
        values: list[bytes | None] = [b"bad" if n % 10 == 0 else json.dumps({"n": n}).encode() for n in numbers]
        self.there.produce(f"{self.name}.in", values)

    def checkpoint(self, sink: str) -> Path:
        return self.directory / "checkpoints" / self.name / sink

    def table(self) -> list[int]:
        return sorted(DeltaTable(self.directory / "lake").to_pyarrow_table()["n"].to_pylist())

    def require_each_once(self, numbers: range) -> None:
        good, bad = [n for n in numbers if n % 10], len([n for n in numbers if n % 10 == 0])
        assert sorted(json.loads(value)["n"] for value in self.there.values(f"{self.name}.out")) == good
        assert self.table() == good
        # The first sink of the file writes the dead letters of both.
        assert len(self.there.consume(f"{self.name}.dead")) == bad

    def transactions(self) -> set[str]:
        """The states of its transactions."""
        with BlockingClient(self.there.bootstrap) as client:
            ids = (f"{self.name}.out", f"{self.name}.lake.dead-letters")
            found = [client.transactions(each).describe() for each in ids]
        return {each.state for each in found if each is not None}
