"""A ratio is judged by the aim of its row and section, and by nothing when one side is missing."""

import pytest

from benchmarks.beside_kafka.aims import AT_LEAST, AT_MOST, SECTIONS, Aim, comparisons
from benchmarks.beside_kafka.figures import Figures, Place

WRITTEN, ON_DISK, SAME_PROMISE, SPARK, SCALING, FROM_DISK, *MORE = SECTIONS
CLUSTER_WRITTEN, CLUSTER_ON_DISK, COORDINATORS, SHARE_WRITTEN, SHARE_ON_DISK, TLS = MORE

TIMES = "ack p99, times that alone"


def judged(section, row, metric, **values):
    figures = Figures()
    for target, value in values.items():
        figures.add(row, metric, target.replace("_", "-"), value)
    return next(comparisons(section, figures))


def test_the_median_of_the_rounds_is_compared():
    figures = Figures()
    for value in (100.0, 900.0, 160.0):
        figures.add("produce 1 KB, 1 partition", "MB/s", "ottla-written", value)
    figures.add("produce 1 KB, 1 partition", "MB/s", "kafka", 100.0)
    (line,) = comparisons(WRITTEN, figures)
    assert (line.ottla, line.ratio, line.verdict) == (160.0, 1.6, "ok")


def test_the_median_of_two_rounds_lies_between_them():
    figures = Figures()
    for value in (100.0, 200.0):
        figures.add("idle", "PSS MB", "kafka", value)
    assert figures.median("idle", "PSS MB", "kafka") == 150.0


@pytest.mark.parametrize(
    ("section", "row", "metric", "ottla", "kafka", "aim", "verdict"),
    [
        (WRITTEN, "produce 100 B, 12 partitions", "MB/s", 149, 100, "≥ 1.5", "missed"),
        (WRITTEN, "produce 100 B, 12 partitions", "broker CPU s/GB", 2, 4, "≤ 0.5", "ok"),
        (WRITTEN, "produce 100 B, 12 partitions", "user s/GB", 2, 4, "", ""),
        (WRITTEN, "consume 10 KB", "MB/s", 110, 100, "≥ 1.1", "ok"),
        (WRITTEN, "consume 10 KB", "broker CPU s/GB", 61, 100, "≤ 0.6", "missed"),
        (WRITTEN, "one record a request, pipelined", "requests/s", 800, 100, "≥ 8", "ok"),
        (WRITTEN, "one record a request, 5 in flight", "requests/s", 399, 100, "≥ 4", "missed"),
        (WRITTEN, "one record a request, 1 in flight", "requests/s", 499, 100, "", ""),
        (WRITTEN, "latency at 20,000/s", "end to end p50 ms", 0.7, 1, "≤ 0.7", "ok"),
        (WRITTEN, "latency at 1,000/s", "ack p50 ms", 0.61, 1, "≤ 0.6", "missed"),
        (WRITTEN, "latency at 1,000/s", "ack p99 ms", 0.31, 1, "≤ 0.3", "missed"),
        (WRITTEN, "latency at 1,000/s", "ack p99.9 ms", 0.29, 1, "≤ 0.3", "ok"),
        (WRITTEN, "start, new directory", "first acknowledged record s", 0.2, 2, "Ottla ≤ 0.3", "ok"),
        (WRITTEN, "start, new directory", "first answer s", 0.2, 2, "", ""),
        (WRITTEN, "idle", "PSS MB", 33, 100, "Ottla ≤ 32", "missed"),
        (WRITTEN, "memory after the load", "peak (VmHWM) MB", 16, 100, "", ""),
        (ON_DISK, "produce 1 KB, 1 partition", "MB/s", 101, 100, "≥ 1", "ok"),
        (ON_DISK, "one record a request, 5 in flight", "requests/s", 50, 100, "", ""),
        (ON_DISK, "latency at 1,000/s", "ack p99.9 ms", 0.2, 1, "≤ 0.1", "missed"),
        (ON_DISK, "latency at 20,000/s", "ack p99 ms", 1, 1, "≤ 1", "ok"),
        (ON_DISK, "consume 1 KB, 12 partitions", "MB/s", 99, 100, "≥ 1", "missed"),
        (SAME_PROMISE, "produce 1 KB, 1 partition", "MB/s", 299, 100, "≥ 3", "missed"),
        (SAME_PROMISE, "one record a request, 5 in flight", "requests/s", 400, 100, "≥ 4", "ok"),
        (SAME_PROMISE, "latency at 1,000/s", "ack p50 ms", 1, 100, "≤ 0.01", "ok"),
        (SPARK, "Spark reads 1 KB", "warm rows/s", 199, 100, "≥ 2", "missed"),
        (SPARK, "Spark reads 1 KB", "first read s", 1, 100, "", ""),
        (SCALING, "partitions: 10,000", "create s", 1, 100, "", ""),
        (SCALING, "connections: 100", "requests/s", 3, 1, "≥ 3", "ok"),
        (SCALING, "connections: 1,000", "requests/s", 129, 100, "≥ 1.3", "missed"),
        (SCALING, "connections: 5,000", "ack p99 ms", 0.7, 1, "≤ 0.7", "ok"),
        (FROM_DISK, "cold catch-up 1 KB", "MB/s", 150, 100, "≥ 1.5", "ok"),
        (FROM_DISK, "cold catch-up 1 KB", "share of what dd reads", 0.49, 0.2, "Ottla ≥ 0.5", "missed"),
        (
            COORDINATORS,
            "2,000,000 offset commits",
            "after kill -9, a group's offsets s",
            3.1,
            30,
            "Ottla ≤ 3",
            "missed",
        ),
        (COORDINATORS, "compaction of 100 B records", "MB/s", 1, 30, "", ""),
        (
            FROM_DISK,
            "tail at 1,000/s beside a catch-up reader",
            "ack p99, times that alone",
            1.4,
            9,
            "Ottla ≤ 1.5",
            "ok",
        ),
        (CLUSTER_WRITTEN, "cluster: produce 1 KB", "MB/s", 149, 100, "≥ 1.5", "missed"),
        (CLUSTER_WRITTEN, "cluster: produce 1 KB", "broker CPU s/GB", 50, 100, "≤ 0.5", "ok"),
        (CLUSTER_WRITTEN, "cluster: latency at 1,000/s", "ack p99 ms", 31, 100, "≤ 0.3", "missed"),
        (CLUSTER_WRITTEN, "cluster: latency at 1,000/s", "ack p50 ms", 31, 100, "", ""),
        (CLUSTER_WRITTEN, "cluster: replica that catches up", "MB/s", 1, 100, "", ""),
        (CLUSTER_ON_DISK, "cluster: produce 1 KB", "MB/s", 100, 100, "≥ 1", "ok"),
        (CLUSTER_ON_DISK, "cluster: produce 1 KB", "broker CPU s/GB", 90, 100, "", ""),
        (CLUSTER_ON_DISK, "cluster: latency at 1,000/s", "ack p99 ms", 90, 100, "", ""),
        (CLUSTER_ON_DISK, "cluster: failover", "until the next acknowledged write s", 1.6, 9, "Ottla ≤ 1.5", "missed"),
        (CLUSTER_ON_DISK, "cluster: failover", "the longest s", 3.9, 9, "Ottla ≤ 4", "ok"),
        (TLS, "TLS: produce 1 KB, TLS", "MB/s", 99, 100, "≥ 1", "missed"),
        (TLS, "TLS: produce 1 KB, plaintext", "MB/s", 99, 100, "", ""),
        (TLS, "TLS: consume 1 KB, TLS", "share of plaintext", 0.5, 0.4, "Ottla ≥ 0.5", "ok"),
        (TLS, "TLS: connections: 1,000", "requests/s", 101, 100, "≥ 1", "ok"),
        (TLS, "TLS: latency at 1,000/s beside handshakes, P-256", TIMES, 2.1, 9, "Ottla ≤ 2", "missed"),
    ],
)
def test_every_aim_stands_at_its_rows(section, row, metric, ottla, kafka, aim, verdict):
    line = judged(section, row, metric, **{section.ottla: ottla, section.kafka: kafka})
    assert (str(line.aim or ""), line.verdict) == (aim, verdict)


def test_where_kafka_was_left_out_nothing_is_judged():
    line = judged(WRITTEN, "memory after the load", "PSS MB", ottla_written=24.0)
    assert (line.ratio, line.verdict) == (None, "")


def test_what_is_aimed_at_by_itself_is_judged_without_kafka():
    assert judged(WRITTEN, "idle", "PSS MB", ottla_written=24.0).verdict == "ok"


def test_what_the_client_takes_is_no_loss():
    line = judged(WRITTEN, "consume 1 KB", "client CPU, cores", ottla_written=2.0, kafka=1.0)
    assert (line.ratio, line.is_lost) == (2.0, False)


def test_a_figure_of_zero_has_no_ratio():
    line = judged(WRITTEN, "idle", "CPU % of a core", ottla_written=1.0, kafka=0.0)
    assert line.ratio is None


def test_rows_of_another_section_are_not_shown():
    figures = Figures()
    figures.add("idle", "PSS MB", "ottla", 1.0)
    figures.add("idle", "PSS MB", "kafka", 1.0)
    assert list(comparisons(ON_DISK, figures)) == []


def test_an_aim_holds_at_its_limit():
    assert Aim("x", "y", AT_LEAST, 1.5).holds(1.5)
    assert Aim("x", "y", AT_MOST, 0.5).holds(0.5)


def test_figures_survive_json():
    figures = Figures()
    figures.add("idle", "PSS MB", "kafka", 369.0)
    figures.add("idle", "PSS MB", "kafka", 371.0)
    again = Figures.from_json(figures.as_json())
    assert again == figures
    assert list(again.places()) == [Place("idle", "PSS MB")]


def test_what_says_something_of_the_machine_has_no_aim():
    assert judged(FROM_DISK, "cold catch-up 1 KB", "dd MB/s", ottla=1_300, kafka=1_300).aim is None
    assert judged(FROM_DISK, "cold catch-up 1 KB", "MB/s", ottla=1_300, kafka=1_300).verdict == "missed"


def test_share_groups_are_to_be_half_again_as_fast_with_the_promise_of_kafka_and_as_they_are_with_more():
    row, figures = "share group, 4 consumers", {"kafka": 100.0}
    assert judged(SHARE_WRITTEN, row, "records/s", ottla_written=150.0, **figures).verdict == "ok"
    assert judged(SHARE_WRITTEN, row, "records/s", ottla_written=149.0, **figures).verdict == "missed"
    assert judged(SHARE_ON_DISK, row, "records/s", ottla=90.0, **figures).verdict == ""
