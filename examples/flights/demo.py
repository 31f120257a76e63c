"""The whole demo, step by step."""

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow.dataset as ds
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from examples.flights.broker import Broker
from examples.flights.check import same_dead_letters, same_number, same_windows
from examples.flights.events import Events, flight_events
from examples.flights.expected import expected_delays
from examples.flights.failure import DemoError
from examples.flights.files import DemoFiles
from examples.flights.malformed import Malformed, plant
from examples.flights.picture import draw
from examples.flights.pipeline import Pipeline
from examples.flights.producer import EventProducer
from examples.flights.progress import Steps, batches
from examples.flights.read_back import DeadLetter, read_dead_letters, read_delays
from examples.flights.reference import airline_records, airport_records
from examples.flights.report import Report
from examples.flights.session import SparkStart
from examples.flights.topics import AIRLINES, AIRPORTS, EVENTS, create_topics

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
    options.files.clear()
    with ExitStack() as stack:
        steps = stack.enter_context(Steps(console))
        with steps.step("broker"):
            bootstrap = options.bootstrap or _start_broker(options, stack)
            create_topics(bootstrap)
        spark = SparkStart(options.files)
        stack.callback(spark.stop)
        try:
            report = _run(options, bootstrap, spark, steps)
        except (PySparkException, Py4JError) as error:
            # In words while Spark still runs: it is asked for them.
            reason = " ".join(str(error).strip().splitlines()[:2])
            raise DemoError(f"Spark failed, see {options.files.spark_log}: {reason}") from None
    report.write(options.files.report)
    report.show(console)
    return report.differences


def _start_broker(options: DemoOptions, stack: ExitStack) -> str:
    return stack.enter_context(Broker(options.files.broker_data, options.files.broker_log, options.port)).bootstrap


def _run(options: DemoOptions, bootstrap: str, spark: SparkStart, steps: Steps) -> Report:
    files = options.files
    with steps.step("flights to events"):
        events = flight_events(options.days)
        malformed = plant(events)
    producer = EventProducer(bootstrap)
    with steps.step("reference topics"):
        producer.reference(AIRLINES, airline_records())
        producer.reference(AIRPORTS, airport_records())
    with steps.step("events into the broker", len(events)) as step:
        producer.events(events, malformed, step.advance)
    with steps.step("Spark"):
        session = spark.session()
    with steps.step("pipeline", len(events) + len(malformed)) as step:
        pipeline = Pipeline(session, bootstrap, files.table, files.checkpoints)
        first, refused = pipeline.start_delays(), pipeline.start_dead_letters()
        step.follow([first, refused])
    with steps.step("last windows", 1) as step:
        producer.clock_event()
        last = pipeline.start_delays()
        step.follow([last])
    with steps.step("check"):
        table = ds.dataset(files.table, format="parquet").to_table().to_pandas()
        letters = read_dead_letters(bootstrap)
        expected = expected_delays(options.days)
        read = [batch for query in (first, last) for batch in batches(query)]
        differences = [
            *same_number(_rows(read), len(events) + len(malformed) + 1, "rows read from the events"),
            *same_number(_dropped(read), 0, "rows that came too late for their window"),
            *same_windows(table, expected, "the table"),
            *same_windows(read_delays(bootstrap), expected, "the topic of results"),
            *same_dead_letters(letters, malformed, producer.origins, EVENTS),
        ]
    with steps.step("picture"):
        _write_dead_letters(letters, files)
        draw(table, files.picture, _period(table))
    return _report(options, events, malformed, table, letters, [first, last], steps, differences)


def _report(
    options: DemoOptions,
    events: Events,
    malformed: list[Malformed],
    table: pd.DataFrame,
    letters: list[DeadLetter],
    queries: list[StreamingQuery],
    steps: Steps,
    differences: list[str],
) -> Report:
    files = options.files
    read = batches(queries[0])
    produced_seconds, read_seconds = steps.seconds["events into the broker"], steps.seconds["pipeline"]
    return Report(
        flights=events.flights,
        events=len(events),
        malformed=len(malformed),
        event_bytes=sum(map(len, events.values)) + sum(map(len, events.keys)),
        produced_seconds=produced_seconds,
        produced_events_rate=round(len(events) / produced_seconds),
        read_rows=_rows(read),
        read_seconds=read_seconds,
        read_rows_rate=round(_rows(read) / read_seconds),
        micro_batches=len(read),
        late_rows_dropped=_dropped(read),
        windows=len(table),
        dead_letters=dict(Counter(letter.reason for letter in letters).most_common()),
        seconds=steps.seconds,
        differences=differences,
        files={
            "table": str(files.table),
            "picture": str(files.picture),
            "dead letters": str(files.dead_letters),
            "report": str(files.report),
        },
    )


def _rows(read: list[dict[str, Any]]) -> int:
    return sum(batch["numInputRows"] for batch in read)


def _dropped(read: list[dict[str, Any]]) -> int:
    return sum(operator["numRowsDroppedByWatermark"] for batch in read for operator in batch["stateOperators"])


def _period(table: pd.DataFrame) -> str:
    days = table["hour"].dt.tz_convert("America/New_York").dt.date
    return f"{days.min():%-d %B} to {days.max():%-d %B %Y}"


def _write_dead_letters(letters: list[DeadLetter], files: DemoFiles) -> None:
    ordered = sorted(letters, key=lambda letter: (letter.partition, letter.offset))
    files.dead_letters.write_text(
        "".join(json.dumps(letter.to_json(), ensure_ascii=False) + "\n" for letter in ordered), encoding="utf-8"
    )
