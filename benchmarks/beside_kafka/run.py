"""Runs a plan, step by step, and says what it does and how long it will take."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import KafkaException

from benchmarks.beside_kafka.figures import Figures
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.page_cache import PageCacheFiller
from benchmarks.beside_kafka.plan import LOAD_GROUPS, Step, remaining_seconds
from benchmarks.beside_kafka.rows import (
    catch_up,
    cluster,
    cluster_partitions,
    compaction,
    connections,
    coordinator,
    latency,
    life,
    log_size,
    partitions,
    requests,
    share,
    spark,
    throughput,
    tls,
    transactions,
)
from benchmarks.beside_kafka.session import Session
from ottla.client import ClientError

OTHER_ROWS: dict[str, Callable[[Session], None]] = {
    "spark": spark.measure,
    "catch-up": catch_up.measure,
    "partitions": partitions.measure,
    "connections": connections.measure,
    "log-size": log_size.measure,
    "transactions": transactions.measure,
    "share": share.measure,
    "tls": tls.measure,
    "compaction": compaction.measure,
    "coordinator": coordinator.measure,
    "cluster": cluster.measure,
    "cluster-partitions": cluster_partitions.measure,
}


# What a broker or its client can do wrong; anything else is a mistake in these programs.
FAILURES = (LoadError, RuntimeError, OSError, KafkaException, ClientError, subprocess.TimeoutExpired)


def measure_load(session: Session, groups: frozenset[str]) -> None:
    """One broker from its start to its end, with the rows of `groups` in between."""
    session.fill_page_cache()
    if "start" in groups:
        start_once(session)
    broker = session.new_broker()
    try:
        times = broker.start()
        if "start" in groups:
            life.record_start(session, "start, new directory", times)
        if "idle" in groups:
            life.measure_idle(session, broker)
        if groups & {*LOAD_GROUPS, "memory"}:
            session.warm_up(broker)
        if groups & {"produce", "consume"}:
            throughput.measure(session, broker, groups)
        if "requests" in groups:
            requests.measure(session, broker)
        if "latency" in groups:
            rates = (1_000,) if session.target.key == "kafka-synced" else (1_000, 20_000)
            latency.measure(session, broker, rates)
        if "memory" in groups:
            life.measure_after_load(session, broker)
        broker.stop()
    finally:
        broker.kill()
        broker.remove()


def start_once(session: Session) -> None:
    """So that the program is compiled and in the page cache, as on a machine that has run it before."""
    broker = session.new_broker()
    try:
        broker.start()
        broker.stop()
    finally:
        broker.kill()
        broker.remove()


def run(
    planned: Sequence[Step],
    work: Path,
    kafka_class_path: Callable[[], str],
    say: Callable[[str], None],
    scale: float = 1.0,
    fill: bool = True,
    keep: Callable[[Figures, list[str]], object] = lambda *_: None,
    catch_up_gb: float = 1.0,
) -> tuple[Figures, list[str]]:
    """All steps: what they measured, and what failed.

    One broker, or one cluster, is up at a time. What one step wrote is on disk and removed before the next begins. A
    step that fails ends there and is told of; the others are run all the same. `keep` is called after each step with
    what there is.
    """
    figures, failures, begun = Figures(), [], time.perf_counter()
    shutil.rmtree(work / "data", ignore_errors=True)
    data = work / "data"
    data.mkdir(parents=True)
    filler = PageCacheFiller(data / "page-cache-filler")
    for number, step in enumerate(planned):
        left = remaining_seconds(planned, number, time.perf_counter() - begun)
        say(f"[{number + 1}/{len(planned)}, about {left / 60:.0f} min left] {step}")
        os.sync()
        session = Session(
            target=step.target,
            work=data,
            figures=figures,
            kafka_class_path=kafka_class_path,
            fill_page_cache=filler.fill if fill else lambda: None,
            say=lambda text: say(f"    {text}"),
            scale=scale,
            catch_up_gb=catch_up_gb,
        )
        try:
            if step.kind == "load":
                measure_load(session, step.groups)
            else:
                OTHER_ROWS[step.kind](session)
        except FAILURES as reason:
            failures.append(f"{step}: {type(reason).__name__}: {reason}")
            say(f"    FAILED: {reason}")
        keep(figures, failures)
    shutil.rmtree(data)
    return figures, failures
