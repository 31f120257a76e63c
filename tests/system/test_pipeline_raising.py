"""Records that an expression raises for: each becomes a dead letter, and the query goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines.audit.balance import balance_of
from ottla.pipelines.audit.report import decode_report
from ottla.pipelines.dead_letters.headers import letter_of
from ottla.pipelines.session import Session
from ottla.pipelines.spec import read
from tests.broker_process import BrokerProcess
from tests.system.spark_session import pipeline_session
from tests.system.test_pipelines import Broker, run

FILE = """
name = "raising"
checkpoints = "checkpoints"

[sources.events]
topics = ["raising.events"]
format = "json"
schema = "n int, what string, text string, by int, at timestamp"
max_records = 20

[[steps]]
name = "made"
sql = '''
select n, what, at, 100 / by as share, array(1, 2)[by - 4] as one, to_timestamp(text, 'yyyy') as year,
  if(what = 'sum', 2147483647 + by, 0) as sum
from events where cast(text as int) < 9000
'''

[[steps]]
name = "sane"
expect = [{ name = "ratio", check = "1 / (n - 1000) < 1", on_fail = "dlq" }]

[[steps]]
name = "once"
deduplicate = { by = ["n"], within = "1 day", time = "at" }

[[sinks]]
name = "out"
topic = "raising.out"
key = "cast(cast(what as date) as string)"
value = "cast(n as string)"

[dead_letters]
topic = "raising.dead"

[audit]
topic = "raising.audit"
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with pipeline_session(tmp_path_factory.mktemp("spark")) as made:
        yield made


def event(n: int, **other: Any) -> dict[str, Any]:
    return {"n": n, "what": None, "text": "2013", "by": 4, "at": "2013-01-01T00:00:00Z"} | other


BAD: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "cast": (event(1, text="one"), "made", "cast(text as int): The value 'one' of the type \"STRING\" cannot be cast"),
    "zero": (event(2, by=0), "made", "100 / by: Division by zero."),
    "index": (event(3, by=9), "made", "array(1, 2)[by - 4]: The index 5 is out of bounds."),
    "time": (event(4, text="8"), "made", "to_timestamp(events.text, 'yyyy') AS year: Text '8' could not be parsed"),
    "sum": (event(5, what="sum"), "made", "2147483647 + by: "),
    "check": (event(1000), "sane", "1 / (n - 1000): Division by zero."),
    "key": (event(6, what="no date"), "out", "cast(what as date): The value 'no date'"),
}
"""Records, the step that fails for each, and how the reason begins."""


@pytest.mark.long
def test_a_record_that_an_expression_raises_for_is_a_dead_letter(
    session: Session, broker: BrokerProcess, tmp_path: Path
):
    there = Broker(broker.bootstrap)
    there.create("raising.events", "raising.out", "raising.dead", "raising.audit")
    # The first micro-batch has all of them, between good records.
    given = [row for number, (bad, *_) in enumerate(BAD.values()) for row in (event(number + 100), bad)]
    given += [event(n) for n in range(107, 130)]
    there.produce("raising.events", [json.dumps(row).encode() for row in given])
    file = tmp_path / "raising.toml"
    file.write_text(FILE)
    spec = read(file)
    outcome, events = run(session, spec, there)
    assert outcome.failed == []

    letters = {}
    for message in there.consume("raising.dead"):
        letter = letter_of(message.headers())
        row = json.loads(message.value())
        assert (letter.topic, letter.partition, given[letter.offset or 0]) == ("raising.events", 0, row)
        assert letter.error_class == "expression failed"
        assert row["n"] not in letters
        letters[row["n"]] = letter.step, letter.reason or ""
    assert {n: step for n, (step, _) in letters.items()} == {row["n"]: step for row, step, _ in BAD.values()}
    for row, _, begin in BAD.values():
        assert letters[row["n"]][1].startswith(begin), letters[row["n"]]
    assert sorted(int(message.value()) for message in there.consume("raising.out")) == [*range(100, 130)]

    balance = balance_of(decode_report(message.value()) for message in there.consume("raising.audit"))
    assert balance.findings == []
    source = next(each for each in balance.totals if each.step == "events")
    assert (source.rows["in"], source.rows["out"], source.rows["dead_letters"]) == (37, 30, 7)
    assert len([each for each in events if each["event"] == "restart"]) == 1


SUMS = """
name = "sums"
checkpoints = "checkpoints"

[sources.events]
topics = ["sums.events"]
format = "text"

[[steps]]
name = "total"
input = "events"
window = { time = "timestamp", every = "1 day", aggregate = { total = "sum(cast(value as bigint))" } }

[[steps]]
name = "large"
input = "events"
window = { time = "timestamp", every = "1 day", aggregate = { n = "sum(4611686018427387904 * cast(value as int))" } }

[[sinks]]
name = "totals"
input = "total"
topic = "sums.totals"
value = "cast(total as string)"
output = "update"

[[sinks]]
name = "larges"
input = "large"
topic = "sums.larges"
output = "update"

[dead_letters]
topic = "sums.dead"

[audit]
topic = "sums.audit"
"""


@pytest.mark.long
def test_an_aggregate_is_given_the_other_records_and_one_that_overflows_ends_the_query(
    session: Session, broker: BrokerProcess, tmp_path: Path
):
    there = Broker(broker.bootstrap)
    there.create("sums.events", "sums.totals", "sums.larges", "sums.dead", "sums.audit")
    there.produce("sums.events", [b"1", b"one", b"1"])
    file = tmp_path / "sums.toml"
    file.write_text(SUMS)
    outcome, _ = run(session, read(file), there)
    assert there.values("sums.totals") == ["2"]
    (message,) = there.consume("sums.dead")
    letter = letter_of(message.headers())
    assert (letter.step, letter.offset, message.value()) == ("total", 1, b"one")
    balance = balance_of(decode_report(message.value()) for message in there.consume("sums.audit"))
    assert balance.findings == []

    ((query, failure),) = outcome.failed
    assert query == "sums.larges"
    assert failure.reason.startswith("step large: ")
    assert "overflow" in failure.reason
    assert (
        "no single record could be found that it fails for: where a value may be wrong use try_cast" in failure.reason
    )
