"""Everything through the pipeline, while the broker is killed under it and started again."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from examples.flights.broker import Broker
from examples.flights.course import Course
from examples.flights.events import flight_events
from examples.flights.pipeline_process import PipelineProcess
from examples.flights.planted import Feed, feed_of
from examples.flights.producer import EventProducer
from examples.flights.read_back import end_offsets
from examples.flights.steps import Step, Steps
from examples.flights.topics import EVENTS
from examples.flights.verify import Sent
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.runner.checkpoint import directory_of
from ottla.pipelines.runner.positions import positions
from ottla.pipelines.spec import PipelineSpec

BEFORE_WAIT, BEFORE_KILL = 0.5, 0.6
"""Of the events: so many are sent before the first micro-batches are waited for, and so many before the kill."""
_CLOSED = "2014-01-15"
"""The last windows are written when the watermark is behind this day."""


@dataclass
class Run:
    """What runs, and what was seen of it."""

    days: int
    away_seconds: float
    spec: PipelineSpec
    broker: Broker
    producer: EventProducer
    pipeline: PipelineProcess
    steps: Steps
    acknowledged: list[tuple[float, int]] = field(default_factory=list)
    killed: float = 0.0
    ready: float = 0.0
    unacknowledged: int = 0
    told: int = 0
    """How many of the pipeline's happenings were shown."""

    @property
    def queries(self) -> list[str]:
        """`pipeline.sink` of each sink."""
        return [f"{self.spec.name}.{sink.name}" for sink in self.spec.sinks]

    @property
    def course(self) -> Course:
        """What was sent and read, and when."""
        return Course(
            self.acknowledged,
            {name: seen.done for name, seen in self.pipeline.queries.items()},
            self.killed,
            self.ready,
        )

    def through_the_pipeline(self) -> Sent:
        """Send everything while the pipeline runs, kill the broker on the way, and wait until all is written."""
        self._tell()
        with self.steps.step("flights to events") as step:
            events = flight_events(self.days)
            feed = feed_of(events)
            step.detail = (
                f"{events.flights:,} flights are {len(events):,} events; planted among them: "
                f"{len(feed.malformed)} malformed, {feed.told_twice} told a second time"
            )
        self._tell()
        first, kill = round(len(feed) * BEFORE_WAIT), round(len(feed) * BEFORE_KILL)
        self._note()
        with self.steps.step("first half sent", first) as step:
            self._send(feed, 0, first, step)
            self.producer.flush()
            self._note()
            step.detail = f"{first:,} events"
        with self.steps.step("first micro-batches", first) as step:

            def tick() -> None:
                step.reached(self._least_read())
                self._tell()

            self.pipeline.wait_until(self._all_have_begun, tick)
            step.detail = f"{' and '.join(self.queries)} write, each exactly once"
        with self.steps.bars(dict.fromkeys(self.queries, len(feed) + 1)) as bars:
            self._show(bars)
            with self.steps.step("kill -9 of the broker", kill - first) as step:
                self._send(feed, first, kill, step)
                self._away(step)
            with self.steps.step("other half sent", len(feed) - kill) as step:
                self._send(feed, kill, len(feed), step)
                self.producer.flush()
                self._note()
                step.detail = f"{len(feed) - first:,} events, what waited for the broker among them"
            with self.steps.step("pipeline catches up", len(feed)) as step:
                self._wait_until_read(step, bars)
                step.detail = self._what_the_queries_did()
            with self.steps.step("last windows") as step:
                self.producer.closing_event()
                self._wait_until_read(step, bars)
                self.pipeline.wait_until(self._windows_closed, lambda: self._show(bars))
                step.detail = "a flight of February 2014 closes them"
        with self.steps.step("pipeline stops") as step:
            self.pipeline.stop()
            step.detail = "by SIGTERM"
        return Sent(self.days, events, feed, self.producer.origins)

    def _send(self, feed: Feed, start: int, end: int, step: Step) -> None:
        def progress(count: int) -> None:
            step.advance(count)
            self._note()

        self.producer.send(feed, start, end, progress)

    def _away(self, step: Step) -> None:
        """Kill the broker with records on their way to it, wait, and start it on what it left."""
        self.unacknowledged = self.producer.waiting
        self._note()
        self.broker.kill()
        self.killed = time.monotonic()
        while time.monotonic() - self.killed < self.away_seconds:
            self.producer.poll(0.1)
            self._note()
        self.broker.start()
        self.ready = time.monotonic()
        step.detail = (
            f"{self.unacknowledged:,} events were on their way to it; away for {self.ready - self.killed:.1f} s, "
            f"ready again in {self.broker.took}"
        )

    def _tell(self) -> None:
        """Show what the pipeline has said of its start since the last time."""
        happenings = self.pipeline.happenings[self.told :]
        self.told += len(happenings)
        for each in happenings:
            if each.line:
                self.steps.note(each.line)

    def _all_have_begun(self) -> bool:
        return all(self.pipeline.queries[name].rows > 0 for name in self.queries if name in self.pipeline.queries) and (
            len(self.pipeline.queries) == len(self.queries)
        )

    def _wait_until_read(self, step: Step, bars: Mapping[str, Step]) -> None:
        """Wait until the checkpoints of all sinks are at the end of the topic."""
        ends = {TopicPartition(EVENTS, place): end for place, end in end_offsets(self.broker.bootstrap, EVENTS).items()}

        def caught_up() -> bool:
            return all(positions(self._checkpoint(name)) == ends for name in self.queries)

        def tick() -> None:
            step.reached(self._least_read())
            self._show(bars)

        self.pipeline.wait_until(caught_up, tick)

    def _windows_closed(self) -> bool:
        return self.pipeline.queries[f"{self.spec.name}.delays"].watermark > _CLOSED

    def _what_the_queries_did(self) -> str:
        told = []
        for name in self.queries:
            failed = [each for each in self.pipeline.happenings if each.kind == "restart" and each.query == name]
            after = self.course.next_batch(name)
            next_batch = "" if after is None else f", its next micro-batch done {after:.1f} s after the broker was back"
            if failed:
                times = "once" if len(failed) == 1 else f"{len(failed)} times"
                told.append(f"{name} failed {times} and started again by itself ({failed[-1].reason}){next_batch}")
            else:
                told.append(f"{name} waited for the broker and went on by itself{next_batch}")
        return "\n".join(told)

    def _show(self, bars: Mapping[str, Step]) -> None:
        for name, bar in bars.items():
            if name in self.pipeline.queries:
                bar.reached(self.pipeline.queries[name].rows)

    def _least_read(self) -> int:
        seen = self.pipeline.queries
        return min(seen[name].rows if name in seen else 0 for name in self.queries)

    def _checkpoint(self, query: str) -> Path:
        sink = next(each for each in self.spec.sinks if query == f"{self.spec.name}.{each.name}")
        return Path(directory_of(self.spec, sink))

    def _note(self) -> None:
        self.acknowledged.append((time.monotonic(), self.producer.acknowledged))
