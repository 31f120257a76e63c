"""The whole demo, step by step."""

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass

import pandas as pd
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from rich.console import Console

from examples.flights.broker import Broker
from examples.flights.events import flight_events
from examples.flights.failure import DemoError
from examples.flights.files import DemoFiles
from examples.flights.malformed import plant
from examples.flights.picture import draw
from examples.flights.pipeline import Pipeline
from examples.flights.producer import EventProducer
from examples.flights.progress import Steps, batches
from examples.flights.reference import airline_records, airport_records
from examples.flights.report import Report
from examples.flights.session import SparkStart
from examples.flights.topics import AIRLINES, AIRPORTS, create_topics
from examples.flights.verify import Processed, Sent, Verified, verify

WHOLE_YEAR_DAYS = 365
SHORT_DAYS = 14


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to run, and where."""

    files: DemoFiles
    days: int = WHOLE_YEAR_DAYS
    port: int = 0
    bootstrap: str | None = None
    """A broker that runs already; None starts one."""


def run(options: DemoOptions, console: Console) -> list[str]:
    """Run it and show the report. The differences between what came out and what should have; none is good."""
    files = options.files
    files.clear()
    with ExitStack() as stack:
        steps = stack.enter_context(Steps(console))
        with steps.step("broker"):
            bootstrap = options.bootstrap or _start_broker(options, stack)
            create_topics(bootstrap)
        spark = SparkStart(files)
        stack.callback(spark.stop)
        producer = EventProducer(bootstrap)
        sent = _send(options.days, producer, steps)
        try:
            processed = _process(Run(bootstrap, files, spark, producer), sent, steps)
        except (PySparkException, Py4JError) as error:
            # In words while Spark still runs: it is asked for them.
            reason = " ".join(str(error).strip().splitlines()[:2])
            raise DemoError(f"Spark failed, see {files.spark_log}: {reason}") from None
        with steps.step("check"):
            verified = verify(bootstrap, files, sent, processed)
        with steps.step("picture"):
            _write_dead_letters(verified, files)
            draw(verified.table, files.picture, _period(verified.table))
    report = _report(files, sent, processed, verified, steps)
    report.write(files.report)
    report.show(console)
    return verified.differences


@dataclass(frozen=True, slots=True)
class Run:
    """What runs while the pipeline does."""

    bootstrap: str
    files: DemoFiles
    spark: SparkStart
    producer: EventProducer


def _start_broker(options: DemoOptions, stack: ExitStack) -> str:
    return stack.enter_context(Broker(options.files.broker_data, options.files.broker_log, options.port)).bootstrap


def _send(days: int, producer: EventProducer, steps: Steps) -> Sent:
    with steps.step("flights to events"):
        events = flight_events(days)
        malformed = plant(events)
    with steps.step("reference topics"):
        producer.reference(AIRLINES, airline_records())
        producer.reference(AIRPORTS, airport_records())
    with steps.step("events into the broker", len(events)) as step:
        producer.events(events, malformed, step.advance)
    return Sent(days, events, malformed, producer.origins)


def _process(running: Run, sent: Sent, steps: Steps) -> Processed:
    with steps.step("Spark"):
        session = running.spark.session()
    with steps.step("pipeline", len(sent.events) + len(sent.malformed)) as step:
        pipeline = Pipeline(session, running.bootstrap, running.files.table, running.files.checkpoints)
        delays, dead_letters = pipeline.start_delays(), pipeline.start_dead_letters()
        step.follow([delays, dead_letters])
    with steps.step("last windows", 1) as step:
        running.producer.clock_event()
        last = pipeline.start_delays()
        step.follow([last])
    return Processed(batches(delays), batches(last), batches(dead_letters))


def _report(files: DemoFiles, sent: Sent, processed: Processed, verified: Verified, steps: Steps) -> Report:
    produced_seconds, read_seconds = steps.seconds["events into the broker"], steps.seconds["pipeline"]
    return Report(
        flights=sent.events.flights,
        events=len(sent.events),
        malformed=len(sent.malformed),
        event_bytes=sum(map(len, sent.events.values)) + sum(map(len, sent.events.keys)),
        produced_seconds=produced_seconds,
        produced_events_rate=round(len(sent.events) / produced_seconds),
        read_rows=processed.rows,
        read_seconds=read_seconds,
        read_rows_rate=round(processed.rows / read_seconds),
        micro_batches=len(processed.delays) + len(processed.dead_letters),
        late_rows_dropped=processed.dropped,
        windows=len(verified.table),
        dead_letters=dict(sorted(Counter(letter.reason for letter in verified.dead_letters).items())),
        seconds=steps.seconds,
        differences=verified.differences,
        files={
            "table": str(files.table),
            "picture": str(files.picture),
            "dead letters": str(files.dead_letters),
            "report": str(files.report),
        },
    )


def _period(table: pd.DataFrame) -> str:
    days = table["hour"].dt.tz_convert("America/New_York").dt.date
    return f"{days.min():%-d %B} to {days.max():%-d %B %Y}"


def _write_dead_letters(verified: Verified, files: DemoFiles) -> None:
    ordered = sorted(verified.dead_letters, key=lambda letter: (letter.partition, letter.offset))
    files.dead_letters.write_text(
        "".join(json.dumps(letter.to_json(), ensure_ascii=False) + "\n" for letter in ordered), encoding="utf-8"
    )
