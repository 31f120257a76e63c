"""A report reads the same after JSON, and the tables in the documents are those of the committed figures."""

import json
from dataclasses import replace

import pytest

from benchmarks.beside_kafka.figures import Figures
from benchmarks.beside_kafka.publish import BEGIN, DOCUMENT, END, published, with_tables
from benchmarks.beside_kafka.report import Report, markdown, number


@pytest.fixture
def report():
    figures = Figures()
    for target, value in (("ottla-written", 800.0), ("kafka", 400.0)):
        figures.add("produce 1 KB, 1 partition", "MB/s", target, value)
    for target, value in (("ottla-written", 100.0), ("kafka", 400.0)):
        figures.add("idle", "PSS MB", target, value)
    return Report(
        "2026-11-21T00:00:00+00:00", 2, {"cores": 2, "processor": "P", "memory_gb": 24.0, "kernel": "6"}, {}, figures
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0.00"), (0.0123, "0.012"), (0.456, "0.46"), (12.34, "12.3"), (1234567.8, "1,234,568")],
)
def test_a_number_shows_the_digits_that_matter(value, text):
    assert number(value) == text


def test_the_table_says_what_holds_and_what_is_missed(report):
    text = markdown(report)
    assert "1 of 2 aims hold" in text
    assert "| produce 1 KB, 1 partition | MB/s | 800 | 400 | 2.00 | ≥ 1.5 | ok |" in text
    assert "| idle | PSS MB | 100 | 400 | 0.25 | Ottla ≤ 32 | missed |" in text


def test_what_kafka_does_better_is_listed_above_the_tables(report):
    none_lost, _, _ = markdown(report).partition("### (a)")
    assert none_lost.endswith("\n\nNone.\n\n")
    for row, metric, ours, kafkas in (
        ("consume 1 KB", "MB/s", 99.0, 100.0),
        ("consume 1 KB", "broker CPU s/GB", 3.0, 2.0),
        ("consume 10 KB", "MB/s", 101.0, 100.0),
        ("connections: 1,000", "requests/s", 65.0, 100.0),
    ):
        for target, value in (("ottla-written", ours), ("ottla", ours), ("kafka", kafkas)):
            report.figures.add(row, metric, target, value)
    lost, _, _ = markdown(report).partition("### (a)")
    assert [line for line in lost.splitlines() if line.startswith("| (")] == [
        "| (a) Written, not synced, before the acknowledgement | consume 1 KB | MB/s 0.99, broker CPU s/GB 1.50 |",
        "| (b) Ottla on disk before the acknowledgement, Kafka not | consume 1 KB | MB/s 0.99, broker CPU s/GB 1.50 |",
        "| (d) Scaling | connections: 1,000 | requests/s 0.65 |",
    ]


def test_json_has_the_comparisons_and_leads_back_to_the_report(report):
    document = json.loads(json.dumps(report.as_json()))
    verdicts = [(line["row"], line["ratio"], line["verdict"]) for line in document["comparisons"]]
    assert verdicts == [("produce 1 KB, 1 partition", 2.0, "ok"), ("idle", 0.25, "missed")]
    assert Report.from_json(document) == report


def test_what_failed_is_said_above_the_tables(report):
    failed = replace(report, failures=("round 1, Kafka: LoadError: out of memory\nand more",))
    assert "Failed: round 1, Kafka: LoadError: out of memory\n" in markdown(failed)
    assert Report.from_json(failed.as_json()) == failed


def test_rows_of_a_later_run_take_the_place_of_those_of_all_the_same_brokers(report):
    later = Figures()
    for target, value in (("ottla-written", 20.0), ("kafka", 500.0), ("ottla", 25.0)):
        later.add("idle", "CPU", target, value)
        later.add("connections: 10", "requests/s", target, value)
    later.add("produce 1 KB, 1 partition", "MB/s", "ottla-written", 900.0)  # of one side alone
    second = replace(report, made="2026-11-22T10:20:00+00:00", figures=later, failures=("idle: too busy",))
    both = report.with_rows_of(second)
    assert both.figures.median("produce 1 KB, 1 partition", "MB/s", "ottla-written") == 800.0
    assert both.figures.median("idle", "PSS MB", "kafka") is None
    assert both.figures.median("idle", "CPU", "kafka") == 500.0
    assert both.later == (("2026-11-22T10:20:00+00:00", ("idle", "connections: 10")),)
    assert "Of a run of its own, 2026-11-22 at 10:20: idle; connections: 10." in markdown(both)
    assert "Failed: idle: too busy" in markdown(both)
    assert Report.from_json(json.loads(json.dumps(both.as_json()))) == both
    third = replace(second, made="2026-11-22T11:00:00+00:00", failures=())
    assert [made for made, _ in both.with_rows_of(third).later] == [third.made]


def test_rows_of_another_machine_are_refused(report):
    with pytest.raises(ValueError, match="same machine"):
        report.with_rows_of(replace(report, machine={**report.machine, "cores": 4}))


def test_tables_take_the_place_of_the_ones_before(report):
    once = with_tables(f"# Title\n\n{BEGIN}\nwas before\n{END}\n\nafter\n", report)
    assert "was before" not in once
    assert once.startswith("# Title\n")
    assert once.endswith("after\n")
    assert with_tables(once, report) == once


def test_a_document_without_a_place_for_tables_is_refused(report):
    with pytest.raises(ValueError, match="no place"):
        with_tables("# Title\n", report)


def test_the_document_shows_the_committed_figures():
    document = DOCUMENT.read_text()
    assert with_tables(document, published()) == document, "run: python -m benchmarks.beside_kafka.publish"
