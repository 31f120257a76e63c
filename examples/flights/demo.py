"""The whole demo, step by step."""

from contextlib import ExitStack
from dataclasses import dataclass

from rich.console import Console

from examples.flights.broker import Broker
from examples.flights.files import DemoFiles
from examples.flights.findings import checked
from examples.flights.pipeline_process import PipelineProcess
from examples.flights.producer import EventProducer
from examples.flights.reference import airline_records, airport_records
from examples.flights.run import Run
from examples.flights.steps import Steps
from examples.flights.topics import AIRLINES, AIRPORTS, TOPICS, create_topics
from ottla.pipelines.graph import graph_of
from ottla.pipelines.graph_svg import svg
from ottla.pipelines.spec import read

WHOLE_YEAR_DAYS = 365
SHORT_DAYS = 14
AWAY_S, SHORT_AWAY_S = 5.0, 1.0
"""How long the broker stays away after it was killed, at least: long enough for all that use it to notice."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to run, and where."""

    files: DemoFiles
    days: int = WHOLE_YEAR_DAYS
    away_seconds: float = AWAY_S
    port: int = 0


def run(options: DemoOptions, console: Console) -> list[str]:
    """Run it and show the report. The differences between what came out and what should have; none is good."""
    files = options.files
    files.clear()
    spec = read(files.pipeline)
    files.graph.write_text(svg(graph_of(spec)), encoding="utf-8")
    with ExitStack() as stack:
        steps = stack.enter_context(Steps(console))
        broker = Broker(files.broker_data, files.broker_log, options.port)
        with steps.step("broker") as step:
            stack.enter_context(broker)
            create_topics(broker.bootstrap)
            step.detail = f"{broker.bootstrap}, ready in {broker.took}; {len(TOPICS)} topics"
        producer = EventProducer(broker.bootstrap)
        with steps.step("compacted topics") as step:
            names = producer.reference(AIRLINES, airline_records()), producer.reference(AIRPORTS, airport_records())
            step.detail = f"airlines and airports: {names[0]} and {names[1]:,} records, of each key the last one counts"
        # Spark starts beside what follows: that takes seconds in which the events can be made and sent.
        pipeline = stack.enter_context(PipelineProcess(files, broker.bootstrap))
        running = Run(options.days, options.away_seconds, spec, broker, producer, pipeline, steps)
        sent = running.through_the_pipeline()
        return checked(running, files, sent, console)
