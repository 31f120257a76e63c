"""Rows that a topic or a table does not take: each is a dead letter of its sink, and the audit balances."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from ottla.pipelines.audit.balance import balance_of
from ottla.pipelines.audit.report import decode_report
from ottla.pipelines.compiler.python_modules import StepError
from ottla.pipelines.dead_letters.headers import letter_of
from ottla.pipelines.runner.queries import limits_of
from ottla.pipelines.session import Session
from ottla.pipelines.spec import read
from ottla.pipelines.tables import ParquetTable
from tests.broker_process import BrokerProcess
from tests.system.spark_session import pipeline_session
from tests.system.test_pipelines import Broker, run

TOPIC_BYTES, LETTER_BYTES = 10_000, 20_000

FILE = """
name = "sinks"
checkpoints = "checkpoints"

[sources.events]
topics = ["sinks.events"]
format = "json"
schema = "n int, what string, who string, code string, size int"

[[steps]]
name = "made"
sql = '''
select n, what, who, code, coalesce(size, 1) as size,
  if(what = 'text', cast(X'ff' as string), 'text') as text,
  if(what = 'nested', array(cast(X'eda080' as string)), array('a')) as texts,
  if(what = 'map', map(cast(X'ff' as string), 1), map('a', 1)) as counts,
  if(what = 'day', date_add(date'9999-12-31', 1), date'2013-01-01') as day,
  if(what = 'time', timestamp_micros(9223372036854775807), timestamp'2013-01-01 00:00:00') as at,
  named_struct('at', if(what = 'before', timestamp_micros(-62135596800000001), timestamp'2013-01-01 00:00:00')) as deep,
  if(what = 'nan', double('NaN'), double('-Infinity')) as ratio
from events
'''

[[sinks]]
name = "out"
topic = "sinks.out"
key = "code"
value = "concat(to_json(struct(n, what)), repeat('x', size))"
headers = '''case what
  when 'null header' then array(cast(null as struct<key: string, value: binary>))
  when 'nameless header' then array(struct(cast(null as string) as key, X'00' as value))
  when 'garbled header' then array(struct(cast(X'ff' as string) as key, X'00' as value))
  else array(struct('a' as key, cast(null as binary) as value)) end'''

[[sinks]]
name = "lake"
parquet = "lake"
partition_by = ["who"]

[[sinks]]
name = "delta"
delta = "delta"
partition_by = ["who"]

[dead_letters]
topic = "sinks.dead"

[audit]
topic = "sinks.audit"
"""
OF_TOPIC = {
    "null key": "key: it is null, and topic sinks.out is compacted (cleanup.policy)",
    "large": "value: the record has 50",
    "null header": "headers: the name of one is null",
    "nameless header": "headers: the name of one is null",
    "garbled header": "headers: the name of one is not UTF-8",
}
OF_TABLES = {
    "nul": "field who: a directory is named after it, and it contains NUL",
    "long": "field who: a directory is named after it, and its name would have more than 255 bytes",
    "escapes": "field who: a directory is named after it, and its name would have more than 255 bytes",
    "huge": "field who: a directory is named after it, and its name would have more than 255 bytes",
    "hive": "field who: a directory is named after it, and this name stands for another value",
    "empty name": "field who: a directory is named after it, and this name stands for another value",
    "text": "field text: it is not UTF-8",
    "nested": "field texts.[]: it is not UTF-8",
    "map": "field counts (a key): it is not UTF-8",
    "day": "field day: +10000-01-01 is outside of the years 1 to 9999",
    "time": "field at: +294247-01-10 04:00:54.775807 is outside of the years 1 to 9999",
    "before": "field deep.at: 0000-12-31 23:59:59.999999 is outside of the years 1 to 9999",
}
WHO = {
    "nul": "a\0b",
    "long": "a" * 252,
    "escapes": "/" * 84,
    "huge": "h" * 30_000,
    "hive": "__HIVE_DEFAULT_PARTITION__",
    "empty name": "__OTTLA_EMPTY__",
    "slash": "a/b=c%2F",
    "dots": "..",
    "longest": "a" * 251,
    "most escapes": "/" * 83 + "aa",
    "characters": "é漢\U0001f600 \x01\x7f",
    "empty": "",
    "none": None,
}
GOOD = ["slash", "dots", "longest", "most escapes", "characters", "empty", "none", "nan"]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with pipeline_session(tmp_path_factory.mktemp("spark")) as made:
        yield made


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    of_their_own: dict[str, dict[str, Any]] = {
        "null key": {"code": None},
        "large": {"size": 50_000},
        "required": {"n": None},
    }
    for what in [*OF_TOPIC, *OF_TABLES, *GOOD, "required"]:
        row = {"n": len(found), "what": what, "who": WHO.get(what, "UA"), "code": "k"}
        row |= of_their_own.get(what, {})
        found.append(row)
    # Together far more than a batch that the topic takes.
    return [*found, *({"n": n, "what": "usual", "who": "UA", "code": "k", "size": 500} for n in range(1000, 1100))]


def create(bootstrap: str) -> None:
    settings = {
        "sinks.events": {},
        "sinks.out": {"cleanup.policy": "compact", "max.message.bytes": str(TOPIC_BYTES)},
        "sinks.dead": {"max.message.bytes": str(LETTER_BYTES)},
        "sinks.audit": {},
    }
    topics = [NewTopic(name, 1, 1, config=config) for name, config in settings.items()]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    for creation in admin.create_topics(topics).values():
        creation.result()


def test_a_row_that_a_sink_does_not_take_is_a_dead_letter_of_it(
    session: Session, broker: BrokerProcess, tmp_path: Path
):
    there = Broker(broker.bootstrap)
    create(broker.bootstrap)
    file = tmp_path / "sinks.toml"
    file.write_text(FILE)
    spec = read(file)
    given = rows()
    there.produce("sinks.events", [json.dumps(row).encode() for row in given])
    declare(session, tmp_path / "delta")
    outcome, _ = run(session, spec, there)
    assert outcome.failed == []

    letters: dict[str, dict[str, str]] = {"out": {}, "lake": {}, "delta": {}}
    for message in there.consume("sinks.dead"):
        letter = letter_of(message.headers())
        assert letter.topic == "sinks.events"
        assert letter.offset is not None
        row = given[letter.offset]
        # One that is too large for the topic of letters goes without its value, and says so.
        assert (letter.cut is not None, message.value() is None) == (row["what"] == "huge",) * 2
        if message.value() is not None:
            assert json.loads(message.value()) == row
        assert row["what"] not in letters[letter.step or ""]
        letters[letter.step or ""][row["what"]] = letter.reason or ""
    large = letters["out"].pop("large")
    assert large.startswith("value: the record has 50")
    assert large.endswith(f" bytes, and topic sinks.out takes {TOPIC_BYTES} (max.message.bytes)")
    assert letters["out"] == {what: why for what, why in OF_TOPIC.items() if what != "large"}
    assert letters["lake"] == OF_TABLES
    assert letters["delta"] == OF_TABLES | {"required": "field n: it is null, and the table requires a value"}

    out = [message.value().rstrip(b"x") for message in there.consume("sinks.out")]
    assert sorted(out) == sorted(
        json.dumps({name: row[name] for name in ("n", "what") if row[name] is not None}, separators=(",", ":")).encode()
        for row in given
        if row["what"] not in OF_TOPIC
    )
    kept = sorted((row["what"], repr(row["who"])) for row in given if row["what"] not in OF_TABLES)
    lake = ParquetTable.open(spec.path("lake")).read(session.spark).select("what", "who").collect()
    assert sorted((row.what, repr(row.who)) for row in lake) == kept
    delta = DeltaTable(str(tmp_path / "delta")).to_pyarrow_table(columns=["what", "who", "n"]).to_pylist()
    assert all(row["n"] is not None for row in delta)
    # An empty partition value is null in Delta's log.
    assert sorted((row["what"], repr(row["who"])) for row in delta) == [
        (what, "None" if who == "''" else who) for what, who in kept if what != "required"
    ]

    balance = balance_of(decode_report(message.value()) for message in there.consume("sinks.audit"))
    assert balance.findings == []
    counted = {
        each.step: (each.rows["in"], each.rows["out"], each.rows["dead_letters"])
        for each in balance.totals
        if each.step == each.sink
    }
    assert counted == {
        "out": (len(given), len(given) - len(OF_TOPIC), len(OF_TOPIC)),
        "lake": (len(given), len(given) - len(OF_TABLES), len(OF_TABLES)),
        "delta": (len(given), len(given) - len(OF_TABLES) - 1, len(OF_TABLES) + 1),
    }
    assert all(int(each.checksums["out"], 16) for each in balance.totals if each.step == each.sink)


def declare(session: Session, path: Path) -> None:
    """A table of Delta whose column `n` is required."""
    frame = session.spark.sql(
        "select 0 as n, '' as what, '' as who, '' as code, 1 as size, '' as text, array('') as texts,"
        " map('', 1) as counts, date'2013-01-01' as day, timestamp'2013-01-01' as at,"
        " named_struct('at', timestamp'2013-01-01') as deep, double(1) as ratio"
    )
    schema = Schema.from_json(frame.schema.toNullable().json())
    fields = [
        Field("n", PrimitiveType("integer"), nullable=False),
        *(each for each in schema.fields if each.name != "n"),
    ]
    DeltaTable.create(str(path), Schema(fields), partition_by=["who"])


@pytest.mark.long
def test_without_dead_letters_such_a_row_ends_the_query_with_the_reason(
    session: Session, broker: BrokerProcess, tmp_path: Path
):
    there = Broker(broker.bootstrap)
    there.create("ended.events", "ended.out")
    there.produce("ended.events", [json.dumps({"n": 1, "who": "a\0b"}).encode()])
    file = tmp_path / "ended.toml"
    file.write_text(
        """
name = "ended"
checkpoints = "checkpoints"
[sources.events]
topics = ["ended.events"]
format = "json"
schema = "n int, who string"
[[sinks]]
name = "out"
topic = "ended.out"
value = "repeat('x', 2000000)"
[[sinks]]
name = "lake"
parquet = "lake"
partition_by = ["who"]
"""
    )
    outcome, _ = run(session, read(file), there)
    reasons = {query: failure.reason for query, failure in outcome.failed}
    assert reasons["ended.out"].startswith("a sink does not take a row: sink out: value: the record has 2000")
    assert reasons["ended.lake"] == (
        "a sink does not take a row: sink lake: field who: a directory is named after it, and it contains NUL,"
        " in a row of the record ended.events-0@0"
    )


def test_a_compacted_topic_of_dead_letters_is_refused_at_the_start(broker: BrokerProcess, tmp_path: Path):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    topics = [
        NewTopic("compacted.out", 1, 1, config={"cleanup.policy": "compact"}),
        NewTopic("compacted.dead", 1, 1, config={"cleanup.policy": "compact,delete"}),
    ]
    for creation in admin.create_topics(topics).values():
        creation.result()
    file = tmp_path / "compacted.toml"
    file.write_text(
        """
name = "compacted"
[sources.events]
topics = ["compacted.events"]
[[sinks]]
name = "out"
topic = "compacted.out"
[dead_letters]
topic = "compacted.dead"
"""
    )
    spec = read(file)
    with pytest.raises(StepError, match=r"topic compacted\.dead is compacted .* Set cleanup\.policy=delete"):
        limits_of(spec, spec.sinks[0], broker.bootstrap)
