"""The benchmark works: a run of a few records against Ottla alone gives every figure of the rows it was asked for."""

import os
import resource
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from benchmarks.beside_kafka import by_turns
from benchmarks.beside_kafka import session as session_module
from benchmarks.beside_kafka.aims import SECTIONS
from benchmarks.beside_kafka.brokers import OTTLA_WRITTEN
from benchmarks.beside_kafka.load_generator import LoadError, LoadGenerator, compiled, librdkafka
from benchmarks.beside_kafka.plan import steps
from benchmarks.beside_kafka.report import Report, markdown
from benchmarks.beside_kafka.rows import catch_up, cluster, compaction, connections, throughput
from benchmarks.beside_kafka.run import OTHER_ROWS, run
from benchmarks.beside_kafka.session import Session
from tests.conformance.needed_peers import needed_peer
from tools.peers import java_class_path

ROWS = {
    "start, new directory",
    *(f"produce {name}, 1 partition" for _, name, _ in throughput.SIZES),
    *(f"produce {name}, 12 partitions" for _, name, _ in throughput.SIZES),
    *(f"consume {name}" for _, name, _ in throughput.SIZES),
    *(f"consume {name}, 12 partitions" for _, name, _ in throughput.SIZES),
    *(f"one record a request, {name}" for name in ("pipelined", "5 in flight", "1 in flight")),
    "one record a request, 5 in flight, a quota of another client",
    "latency at 1,000/s",
    "latency at 20,000/s",
    "memory after the load",
}


def no_kafka() -> str:
    raise AssertionError("Kafka is not part of this run")


def test_a_small_run_gives_every_figure(tmp_path):
    said: list[str] = []
    planned = steps(["start", "memory", "produce", "consume", "requests", "latency"], ["ottla-written"], 1)
    figures, failures = run(planned, tmp_path, no_kafka, said.append, scale=0.0005, fill=False)
    assert failures == []
    assert {place.row for place in figures.places()} == ROWS
    for place in figures.places():
        value = figures.median(place.row, place.metric, "ottla-written")
        assert value is not None
        assert value > 0 or "CPU" in place.metric or "machine" in place.metric or place.metric.endswith("s/GB"), place
    assert "about" in said[0]
    assert "| consume 10 KB | MB/s |" in markdown(
        Report("2026-11-21", 1, {"cores": 2, "processor": "", "memory_gb": 1, "kernel": ""}, {}, figures)
    )


@pytest.mark.long
def test_a_small_run_over_tls_gives_every_figure(tmp_path):
    figures, failures = run(
        steps(["tls"], ["ottla-written"], 1), tmp_path, no_kafka, lambda _: None, scale=0.002, fill=False
    )
    assert failures == []
    wanted = {
        *(f"TLS: {what} 1 KB, {way}" for what in ("produce", "consume") for way in ("plaintext", "TLS")),
        "TLS: connections: 1,000",
        *(f"TLS: latency at 1,000/s beside handshakes, {key}" for key in ("P-256", "RSA 2,048")),
    }
    assert {place.row for place in figures.places()} == wanted
    for row in wanted:
        metric = "MB/s" if "1 KB" in row else "requests/s" if "connections" in row else "handshakes/s"
        assert (figures.median(row, metric, "ottla-written") or 0) > 0


def few_connections(monkeypatch):
    for name, count in {"STORMS": (200,), "MANY": 100, "IDLE": 300}.items():
        monkeypatch.setattr(connections, name, count)


@pytest.mark.long
def test_a_small_run_of_three_brokers_gives_every_figure(tmp_path):
    figures, failures = run(
        steps(["cluster"], ["ottla"], 1), tmp_path, no_kafka, lambda _: None, scale=0.001, fill=False
    )
    assert failures == []
    rows = {place.row for place in figures.places()}
    assert rows == {
        *(f"{cluster.PRODUCE}{name}" for _, name, _ in cluster.SIZES),
        cluster.LATENCY,
        cluster.CATCH_UP,
        cluster.FAILOVER,
        "cluster: 10,000 partitions",
    }
    assert (figures.median(cluster.FAILOVER, "the longest s", "ottla") or 0) > 0


@pytest.mark.long
@pytest.mark.peer
def test_a_small_run_of_share_groups_gives_every_figure(tmp_path):
    with needed_peer():
        class_path = java_class_path()
    figures, failures = run(
        steps(["share"], ["ottla"], 1), tmp_path, lambda: class_path, lambda _: None, scale=0.001, fill=False
    )
    assert failures == []
    for row in ("share group, 1 consumer", "share group, 4 consumers", "share group, 16 consumers"):
        assert (figures.median(row, "records/s", "ottla") or 0) > 0
        assert figures.median(row, "broker CPU µs a record", "ottla") is not None


def test_many_connections_are_all_answered(tmp_path, monkeypatch):
    few_connections(monkeypatch)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    (step,) = steps(["connections"], ["ottla"], 1)
    figures, failures = run([step], tmp_path, no_kafka, lambda _: None, scale=0.1, fill=False)
    assert failures == []
    for count in (100, 200):
        assert (figures.median(f"connections: {count}", "requests/s", "ottla") or 0) > 0
    assert figures.median("connections: idle", "how many", "ottla") == 300
    assert figures.median("connections: idle", "PSS KB an idle connection", "ottla") is not None
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits


def test_connections_beyond_what_the_broker_may_open_are_left_out_and_told_of(tmp_path, monkeypatch):
    few_connections(monkeypatch)
    monkeypatch.setattr(connections, "connections_allowed", lambda: (50, 64))
    said: list[str] = []
    figures, failures = run(
        steps(["connections"], ["ottla"], 1), tmp_path, no_kafka, said.append, scale=0.1, fill=False
    )
    assert failures == []
    assert figures.median("connections: idle", "how many", "ottla") == 50
    assert any("connections beyond 50 are left out: 64 open files" in line for line in said)


def test_brokers_by_turns_and_a_program_that_only_answers(tmp_path):
    said: list[str] = []
    targets = [by_turns.NOTHING, OTTLA_WRITTEN]
    figures = by_turns.measure(targets, 10, 2, tmp_path, said.append, scale=0.04)
    for target in targets:
        each = {place.metric: by_target[target.key] for place, by_target in figures.values.items()}
        assert len(each["requests/s"]) == len(each["broker CPU µs a request"]) == 2  # and not the first turn
        assert min(each["requests/s"]) > 0
    assert [line for line in said if line.startswith("turn")] == [
        f"turn {turn} of 2, {key}" for turn in range(3) for key in ("nothing", "ottla-written")
    ]


def test_an_error_code_in_an_answer_ends_the_row(tmp_path, monkeypatch):
    monkeypatch.setattr(Session, "create_topic", lambda *_: 0.0)
    monkeypatch.setattr(Session, "warm_up", lambda *_: None)
    with_auto_creation = Session.new_broker
    off = {"auto.create.topics.enable": "false"}
    monkeypatch.setattr(Session, "new_broker", lambda session: with_auto_creation(session, **off))
    few_connections(monkeypatch)
    _, failures = run(steps(["connections"], ["ottla"], 1), tmp_path, no_kafka, lambda _: None, scale=0.1, fill=False)
    assert len(failures) == 1
    assert "the broker answered with an error code" in failures[0]


def test_a_step_that_fails_is_told_of_and_the_next_one_runs(tmp_path, monkeypatch):
    def refuse(session):
        raise LoadError(f"{session.target.key} is tired")

    monkeypatch.setitem(OTHER_ROWS, "partitions", refuse)
    started, refused = steps(["partitions", "start"], ["ottla"], 1)
    figures, failures = run([refused, started], tmp_path, no_kafka, lambda _: None, fill=False)
    assert failures == [f"{refused}: LoadError: ottla is tired"]
    assert (figures.median("start, new directory", "first answer s", "ottla") or 0) > 0


def test_a_load_that_fails_says_why(tmp_path, broker):
    load = LoadGenerator(compiled("load", tmp_path, (librdkafka(),)), broker.bootstrap)
    with pytest.raises(LoadError, match="produce of nowhere"):
        load.produce("nowhere", {"message.timeout.ms": "300", "allow.auto.create.topics": "false"}, count=1)


nothing: Any = None
"""What these do not ask for."""


@pytest.mark.parametrize("partitions", [1, 4, 5, 9])
def test_a_topic_grows_in_steps_to_the_partitions_asked_for(tmp_path, monkeypatch, broker, partitions):
    monkeypatch.setattr(session_module, "PARTITIONS_AT_ONCE", 4)
    session = Session(nothing, tmp_path, nothing, no_kafka, lambda: None, print)
    session.create_topic(broker, f"steps-{partitions}", partitions)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert len(admin.list_topics(f"steps-{partitions}").topics[f"steps-{partitions}"].partitions) == partitions


def test_a_smaller_session_still_sends_something(tmp_path):
    session = Session(nothing, tmp_path, nothing, no_kafka, lambda: None, print, scale=0.0)
    assert session.count(1000) == 1
    assert session.seconds(10.0) == 0.2


def test_what_is_read_from_the_disk_is_compared_with_a_plain_read(tmp_path):
    (step,) = steps(["catch-up"], ["ottla"], 1)
    figures, failures = run([step], tmp_path, no_kafka, lambda _: None, scale=0.01, fill=False)
    assert failures == []
    assert {place.row for place in figures.places()} == {catch_up.COLD, catch_up.TAIL, catch_up.BESIDE}
    assert (figures.median(catch_up.COLD, "share of what dd reads", "ottla") or 0) > 0
    assert (figures.median(catch_up.BESIDE, "end to end p99, times that alone", "ottla") or 0) > 0


def test_transactions_compaction_and_a_coordinator_that_was_killed_are_measured(tmp_path):
    planned = steps(["transactions", "compaction", "coordinator"], ["ottla"], 1)
    figures, failures = run(planned, tmp_path, no_kafka, lambda _: None, scale=0.005, fill=False)
    assert failures == []
    (section,) = (each for each in SECTIONS if "Transactions" in each.title)
    for row in section.rows:
        assert any(place.row.startswith(row) for place in figures.places()), row
    compacted = [figures.median(each.row, each.metric, "ottla") for each in figures.places() if "left" in each.metric]
    assert len(compacted) == len(compaction.SHAPES)
    assert all(0 < left <= 0.5 for left in compacted if left is not None)


def test_a_checkpoint_of_the_cleaner_is_read():
    text = "0\n2\nother 0 7\ncompacted 0 42\n"
    assert compaction.clean_offset(text, "compacted", 0) == 42
    assert compaction.clean_offset(text, "compacted", 1) == -1


def test_what_is_dropped_from_the_page_cache_is_on_disk_before(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_bytes(bytes(1 << 20))
    calls: list[tuple[object, ...]] = []
    name_of = lambda fd: Path(f"/proc/self/fd/{fd}").readlink().name  # noqa: E731
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append(("fsync", name_of(fd))))
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, *advice: calls.append((name_of(fd), *advice)))
    catch_up.drop_from_page_cache([path])
    assert calls == [("fsync", "log"), ("log", 0, 0, os.POSIX_FADV_DONTNEED)]
    assert catch_up.read_through([path]) > 0
