"""Only the records that the query of a sink really fails for become dead letters; what fails by its state ends soon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.pipelines.dead_letters.headers import letter_of
from ottla.pipelines.session import Session
from ottla.pipelines.spec import read
from ottla.pipelines.testing import run_tests
from tests.broker_process import BrokerProcess
from tests.system.spark_session import pipeline_session
from tests.system.test_pipelines import Broker, run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with pipeline_session(tmp_path_factory.mktemp("spark")) as made:
        yield made


BLAME = """
name = "blame"
checkpoints = "checkpoints"

[sources.events]
topics = ["blame.events"]
format = "json"
schema = "n int, kind string, needed string, unneeded string"

[[steps]]
name = "made"
sql = '''
select n, needed, unneeded
from (select n, kind, cast(needed as int) as needed, cast(unneeded as int) as unneeded from events)
where kind = 'a'
'''

[[steps]]
name = "fewer"
sql = "select n, needed from made"

[[sinks]]
name = "out"
topic = "blame.out"
value = "concat(n, ':', needed)"

[dead_letters]
topic = "blame.dead"
"""


def test_a_value_that_the_sink_does_not_write_and_a_row_that_is_dropped_first_blame_nobody(
    session: Session, broker: BrokerProcess, tmp_path: Path
):
    there = Broker(broker.bootstrap)
    there.create("blame.events", "blame.out", "blame.dead")
    rows = [
        {"n": 0, "kind": "a", "needed": "0", "unneeded": "0"},
        {"n": 1, "kind": "a", "needed": "bad", "unneeded": "1"},
        {"n": 2, "kind": "a", "needed": "2", "unneeded": "bad"},
        {"n": 3, "kind": "b", "needed": "bad", "unneeded": "3"},
        {"n": 4, "kind": "a", "needed": "bad", "unneeded": "bad"},
        {"n": 5, "kind": "a", "needed": "5", "unneeded": "5"},
    ]
    there.produce("blame.events", [json.dumps(row).encode() for row in rows])
    file = tmp_path / "blame.toml"
    file.write_text(BLAME)
    outcome, events = run(session, read(file), there)
    assert outcome.failed == []
    assert len([event for event in events if event["event"] == "restart"]) == 1
    assert there.values("blame.out") == ["0:0", "2:2", "5:5"]
    letters = [letter_of(message.headers()) for message in there.consume("blame.dead")]
    assert sorted((letter.offset, letter.step) for letter in letters) == [(1, "made"), (4, "made")]
    assert all("cast(needed as int)" in (letter.reason or "") for letter in letters)


TESTED = """
[[tests]]
name = "letters"
given.events = [
  { n = 1, kind = "a", needed = "bad", unneeded = "1" },
  { n = 2, kind = "a", needed = "2", unneeded = "bad" },
  { n = 3, kind = "b", needed = "bad", unneeded = "3" },
]
expect.out = [{ value = "2:2" }]
dead_letters = [{ step = "made", n = 1 }]
"""


def test_a_test_of_the_file_shows_them_as_dead_letters(session: Session, tmp_path: Path):
    file = tmp_path / "blame.toml"
    file.write_text(BLAME + TESTED)
    (done,) = run_tests(read(file), session.spark, drops=True)
    assert done.differences == ()
    (drop,) = done.drops
    assert (drop.step, drop.rows) == ("made", 1)
    assert drop.reason.startswith("dead letter: expression failed: cast(needed as int): The value 'bad' of the type")
    file.write_text((BLAME + TESTED).replace('[dead_letters]\ntopic = "blame.dead"\n', ""))
    (ended,) = run_tests(read(file), session.spark)
    assert ended.differences[0].startswith("failed: step made: cast(needed as int): The value 'bad'")
    assert "name a topic for such records in [dead_letters]" in ended.differences[0]


STATE = """
name = "kept"
checkpoints = "checkpoints"

[sources.events]
topics = ["kept.events"]
format = "text"
max_records = 1

[[steps]]
name = "total"
window = { time = "timestamp", every = "1000 days", aggregate = { total = "sum(cast(value as int))" } }

[[steps]]
name = "share"
sql = "select 100 / (total - 5) as share from total"

[[sinks]]
name = "out"
topic = "kept.out"
value = "cast(share as string)"
output = "update"

[dead_letters]
topic = "kept.dead"
"""


def test_a_step_behind_a_window_that_fails_for_a_row_of_its_state_ends_the_query_after_one_more_start(
    session: Session, broker: BrokerProcess, tmp_path: Path
):
    there = Broker(broker.bootstrap)
    there.create("kept.events", "kept.out", "kept.dead")
    # The total is 2, then 5; neither record fails alone.
    there.produce("kept.events", [b"2", b"3"])
    file = tmp_path / "kept.toml"
    file.write_text(STATE)
    outcome, events = run(session, read(file), there)
    ((query, failure),) = outcome.failed
    assert query == "kept.out"
    assert "Division by zero" in failure.reason
    assert "rows that are kept from earlier ones" in failure.reason
    assert [event["batch"] for event in events if event["event"] == "batch"] == [0]
    assert len([event for event in events if event["event"] == "restart" and event["wait_ms"]]) == 1
    assert there.consume("kept.dead") == []
