"""A queue of jobs: Kafka and NSQ workers, some killed, some jobs bad, some delayed; each is done once.

Bad jobs end as dead letters, and are sent back when the workers can do them. Exit code 0: every job was done once, none
early, every bad one was a letter. 1: not so, or the example failed.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from examples.flights.broker import Broker
from examples.flights.failure import DemoError
from examples.flights.processes import adopt_orphans, end_all_children, end_with_parent
from examples.jobs.jobs import DELAYED, Job, new_jobs
from examples.jobs.outcome import Line, Outcome, check, lines_of, table
from examples.jobs.picture import draw
from examples.jobs.worker import LIBRARIES, PYNSQ

TOPIC = GROUP = "jobs"
LATER, LETTERS = "jobs.later", "dlq.jobs"
DELAY_S = 8
WAIT_S = 90


def main() -> int:
    """Run it, say what came of it, and leave nothing running."""
    parser = argparse.ArgumentParser(prog="python -m examples.jobs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/jobs"), help="where to put the picture")
    parser.add_argument("--jobs", type=int, default=200, help="how many jobs (200)")
    arguments = parser.parse_args()
    adopt_orphans()
    try:
        outcome = Run(arguments.out).run(arguments.jobs)
    except DemoError as error:
        print(f"failed: {error}")
        return 1
    except KeyboardInterrupt:
        print("stopped")
        return 130
    finally:
        end_all_children()
    print(table(outcome))
    for mistake in outcome.mistakes:
        print(f"wrong: {mistake}")
    if not outcome.mistakes:
        print(f"each of {len(outcome.jobs)} jobs was done once; {outcome.letters} of them by way of a dead letter")
    return 1 if outcome.mistakes else 0


class Run:
    """A run in a directory of its own."""

    def __init__(self, out: Path) -> None:
        self._data = out / "data"
        self._picture = out / "jobs.png"
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(parents=True)
        self._flag = self._data / "repaired"
        self._broker = Broker(self._data / "broker", self._data / "broker.log", has_nsq=True)
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._jobs: list[Job] = []

    def run(self, count: int) -> Outcome:
        """Start the broker and the workers, kill some of these, send letters back. Raises DemoError."""
        with self._broker:
            self._prepare()
            self._jobs = new_jobs(count, int(time.time() * 1_000) + DELAY_S * 1_000)
            bad = sum(job.kind not in ("good", DELAYED) for job in self._jobs)
            for library in LIBRARIES:
                self._start(library, 1)
                self._start(library, 2)
            self._produce()
            print(f"{count} jobs, {bad} of them bad, for 6 workers of {', '.join(LIBRARIES)}")
            self._until("a third of the jobs is done", lambda: self._count("done") >= count // 3)
            for library in LIBRARIES:
                self._kill(f"{library}-1")
                self._start(library, 3)
            self._until("all good jobs are done", lambda: self._count("done") >= count - bad - 2 and not self._lag())
            self._flag.touch()
            letters = self._ottla("dlq", "redrive", LETTERS, "--execute", "--json")
            sent = sum(each["letters"] for each in letters["sent"])
            print(f"{sent} dead letters were sent back")
            self._until("the bad jobs are done", lambda: self._repaired() >= bad and not self._lag())
            outcome = Outcome(self._jobs, self._lines(), sent, self._lag())
            for worker in self._workers.values():
                worker.kill()
        check(outcome, [f"{library}-1" for library in LIBRARIES], LIBRARIES)
        draw(outcome, self._picture)
        print(f"picture: {self._picture}")
        return outcome

    def _prepare(self) -> None:
        self._ottla("topic", "create", TOPIC, "--partitions", "2")
        self._ottla("topic", "create", LATER, "--partitions", "2", "--config", f"ottla.deliver.to={TOPIC}")
        self._ottla("topic", "create", LETTERS, "--config", "errors.deadletterqueue.group.enable=true")
        settings = (
            "share.auto.offset.reset=earliest",
            "share.isolation.level=read_committed",
            "share.delivery.count.limit=3",
            "ottla.retry.backoff.ms=500",
            f"errors.deadletterqueue.topic.name={LETTERS}",
            "errors.deadletterqueue.copy.record.enable=true",
        )
        self._ottla("config", "set", "--group", GROUP, *settings)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._broker.bootstrap})
        for job in self._jobs:
            topic = LATER if job.due_ms else TOPIC
            headers = [("ottla-deliver-at", str(job.due_ms).encode())] if job.due_ms else []
            producer.produce(topic, job.encode(), headers=headers, partition=job.number % 2)
        if producer.flush(30):
            raise DemoError("the jobs could not be written within 30 s")

    def _start(self, library: str, number: int) -> None:
        name = f"{library}-{number}"
        log = self._data / f"{name}.log"
        address = self._broker.nsq if library == PYNSQ else self._broker.bootstrap
        command = [sys.executable, "-m", "examples.jobs.worker", address, library, str(log), str(self._flag)]
        with (self._data / f"{name}.stderr").open("wb") as said:
            self._workers[name] = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stderr=said,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - it takes no lock
            )

    def _kill(self, name: str) -> None:
        worker = self._workers[name]
        worker.kill()
        worker.wait()
        print(f"worker {name} was killed")

    def _lines(self) -> list[Line]:
        return lines_of(self._data / f"{name}.log" for name in self._workers if self._has_log(name))

    def _has_log(self, name: str) -> bool:
        return (self._data / f"{name}.log").exists()

    def _count(self, event: str) -> int:
        return sum(line.event == event for line in self._lines())

    def _repaired(self) -> int:
        bad = {job.number for job in self._jobs if job.kind not in ("good", DELAYED)}
        return len({line.job for line in self._lines() if line.event == "done" and line.job in bad})

    def _lag(self) -> int:
        [described] = self._ottla("group", "describe", GROUP, "--json")
        return int(described["lag"] or 0)

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + WAIT_S
        while not is_so():
            for name, worker in self._workers.items():
                if worker.poll() not in (None, -9):
                    raise DemoError(f"worker {name} ended with exit code {worker.returncode}")
            if time.monotonic() > end:
                raise DemoError(f"after {WAIT_S} s it is not so that {what}")
            time.sleep(0.2)

    def _ottla(self, *arguments: str) -> Any:
        """Run a command. Returns its JSON, if that is what it prints. Raises DemoError."""
        command = [sys.executable, "-m", "ottla.cli", *arguments]
        at = ["--bootstrap", self._broker.bootstrap]
        done = subprocess.run([*command, *at], capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise DemoError(f"{' '.join(command[2:])}: {done.stderr.strip()}")
        return json.loads(done.stdout) if "--json" in arguments else {}


if __name__ == "__main__":
    sys.exit(main())
