"""The command line tools of Apache Kafka 4.3.1, called as their shell scripts call them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from tests.conformance.java.jvm import TIME_LIMIT_S, Ended, Jvm

PACKAGE = "org.apache.kafka.tools"
# What the console consumer says on standard error when all is well.
CONSUMER_WORDS = re.compile(r"The consumer rebalance protocol \(KIP-848\).*\n|Processed a total of \d+ messages\n")
# What the consumer group tool says on standard error, beside the table, of a group without members.
NO_MEMBERS = re.compile(r"\s*Consumer group '[^']+' has no active members\.\s*")


@dataclass(frozen=True)
class KafkaTools:
    """Each method is one tool; arguments are the tool's own."""

    jvm: Jvm
    bootstrap: str

    def topics(self, *args: object) -> Ended:
        return self._run("TopicCommand", *args)

    def configs(self, *args: object) -> Ended:
        return self.jvm.run("kafka.admin.ConfigCommand", "--bootstrap-server", self.bootstrap, *args)

    def consumer_groups(self, *args: object) -> Ended:
        return self._run("consumer.group.ConsumerGroupCommand", *args)

    def get_offsets(self, *args: object) -> Ended:
        return self._run("GetOffsetShell", *args)

    def delete_records(self, *args: object) -> Ended:
        return self._run("DeleteRecordsCommand", *args)

    def log_dirs(self, *args: object) -> Ended:
        return self._run("LogDirsCommand", *args)

    def leader_election(self, *args: object) -> Ended:
        return self._run("LeaderElectionCommand", *args)

    def tool(self, tool: str, *args: object) -> Ended:
        """A tool of the package that has no method here."""
        return self._run(tool, *args)

    def tool_with_input(self, name: str, lines: list[str], *args: object) -> Ended:
        """A tool that reads lines from standard input."""
        return self._run(name, *args, stdin="".join(f"{line}\n" for line in lines))

    def java(self, main: str, *args: object) -> list[dict]:
        """What a class of our own prints; its first argument is the broker."""
        return self.jvm.run(main, self.bootstrap, *args).ok().facts

    def dump_log(self, *args: object) -> Ended:
        return self.jvm.run(f"{PACKAGE}.DumpLogSegments", *args)

    def new_topic(self, name: str, partitions: int = 1, **config: object) -> str:
        """Create a topic; config keys are written with `_` for `.`."""
        settings = [word for key, value in config.items() for word in ("--config", f"{key.replace('_', '.')}={value}")]
        self.topics("--create", "--topic", name, "--partitions", partitions, *settings).ok()
        return name

    def produce(self, topic: str, lines: list[str], *args: object) -> None:
        """The console producer; it must say nothing, which means that every record was acknowledged."""
        assert self.tool_with_input("ConsoleProducer", lines, "--topic", topic, *args).ok().out == ""

    def start_consumer(self, *args: object) -> Future[Ended]:
        """The console consumer, going on while other tools run."""
        return self.jvm.start(
            f"{PACKAGE}.consumer.ConsoleConsumer", "--bootstrap-server", self.bootstrap, *args, stdin=""
        )

    def consume(self, topic: str, count: int, *args: object) -> list[str]:
        """What the console consumer prints for the first `count` records."""
        more = ("--topic", topic, "--max-messages", count, "--timeout-ms", 120_000)
        return consumed(self.start_consumer(*more, *args).result(TIME_LIMIT_S), count)

    def _run(self, name: str, *args: object, stdin: str = "") -> Ended:
        return self.jvm.run(f"{PACKAGE}.{name}", "--bootstrap-server", self.bootstrap, *args, stdin=stdin)


def consumed(ended: Ended, count: int) -> list[str]:
    """The lines of a console consumer that ended well after `count` records."""
    assert f"Processed a total of {count} messages" in ended.err
    return replace(ended, err=CONSUMER_WORDS.sub("", ended.err)).ok().lines


def table(ended: Ended) -> list[dict[str, str]]:
    """The rows of a table of the consumer group tool, whose header and cells hold no spaces."""
    header, *rows = [line.split() for line in replace(ended, err=NO_MEMBERS.sub("", ended.err)).ok().lines]
    return [dict(zip(header, row, strict=False)) for row in rows]


def ask_until(is_so: Callable[[], bool]) -> None:
    """Ask a tool again and again, which takes its time, until the broker is as told."""
    deadline = time.monotonic() + TIME_LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, "the broker did not come to the state that the test waits for"


def first_line(ended: Ended) -> str:
    """What a user sees first of a tool that failed."""
    assert ended.code == 1
    return (ended.lines or [line for line in ended.err.splitlines() if line.strip()])[0]


def input_file(folder: Path, text: str) -> Path:
    """A file that a tool reads."""
    path = folder / "tool-input"
    path.write_text(text)
    return path
