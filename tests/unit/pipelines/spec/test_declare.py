"""A pipeline that is declared in Python is the one that a file would be."""

from pathlib import Path

import pytest

from ottla.pipelines import pipeline
from ottla.pipelines.spec import SpecErrors, load
from ottla.pipelines.spec.model import Expect, Python, State

MODULE = """\
from ottla.pipelines import pipeline
from words import TOPIC

flights = pipeline("flights", dead_letters={"topic": "flights.dead-letters"}, trigger="2 seconds")
flights.source("events", topics=[TOPIC], format="json", schema="carrier string, delay_min int")


@flights.step(input="events")
def late(events):
    return events.where("delay_min > 15")


flights.expect("sane", {"delay": "delay_min < 2000"}, on_fail="dlq")
flights.step("known", sql="select * from sane where carrier is not null")


@flights.step("sessions", by=["carrier"], schema="n int", mode="update")
class Sessions:
    pass


flights.sink("delays", topic="flights.delays", key="carrier")
flights.test("one", given={"events": [{"carrier": "UA", "delay_min": 20}]}, expect={"known": [{"carrier": "UA"}]})
"""

FILE = """\
name = "flights"
trigger = "2 seconds"
[dead_letters]
topic = "flights.dead-letters"
[sources.events]
topics = ["flights.events"]
format = "json"
schema = "carrier string, delay_min int"
[[steps]]
name = "late"
input = "events"
python = "pipes_of_flights:late"
[[steps]]
name = "sane"
expect = [{ name = "delay", check = "delay_min < 2000", on_fail = "dlq" }]
[[steps]]
name = "known"
sql = "select * from sane where carrier is not null"
[[steps]]
name = "sessions"
state = { python = "pipes_of_flights:Sessions", by = ["carrier"], schema = "n int", mode = "update" }
[[sinks]]
name = "delays"
topic = "flights.delays"
key = "carrier"
[[tests]]
name = "one"
given.events = [{ carrier = "UA", delay_min = 20 }]
expect.known = [{ carrier = "UA" }]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "words.py").write_text('TOPIC = "flights.events"\n')
    (tmp_path / "pipes_of_flights.py").write_text(MODULE)
    (tmp_path / "flights.toml").write_text(FILE)
    return tmp_path / "pipes_of_flights.py"


def test_a_declared_pipeline_is_the_one_of_the_file_with_its_functions(module: Path) -> None:
    declared, written = load(f"{module}:flights"), load(module.parent / "flights.toml")
    late, _, _, sessions = declared.steps
    assert isinstance(late.action, Python)
    assert isinstance(sessions.action, State)
    assert late.action.function.__name__ == "late"
    assert sessions.action.processor.__name__ == "Sessions"
    assert (declared.sources, declared.sinks, declared.tests) == (written.sources, written.sinks, written.tests)
    for own, of_file in zip(declared.steps, written.steps, strict=True):
        assert (own.name, own.inputs) == (of_file.name, of_file.inputs)
        if isinstance(own.action, Python | State):
            assert own.action.python == of_file.action.python
        else:
            assert own.action == of_file.action


def test_mistakes_of_a_declared_pipeline_stand_at_the_lines_of_its_calls(module: Path) -> None:
    module.write_text(MODULE.replace('topic="flights.delays"', 'topics="x"').replace("[TOPIC]", '["a/b"]'))
    with pytest.raises(SpecErrors) as refused:
        load(f"{module}:flights")
    assert [(each.line, each.message) for each in refused.value.mistakes] == [
        (5, "'a/b' cannot name a topic"),
        (22, "sink delays writes nowhere"),
    ]


@pytest.mark.parametrize(
    ("change", "target", "said"),
    [
        (MODULE, ":nothing", ":1:1: there is no nothing here"),
        (MODULE, ":TOPIC", ":1:1: TOPIC is not a pipeline"),
        (MODULE, "", ":1:1: the pipeline in this module is not named"),
        ("a = 1\nb = a / 0\n", ":flights", ":2:1: running it failed: ZeroDivisionError: division by zero"),
        ("a = (\n", ":flights", ":1:5: this is not Python: '(' was never closed"),
        ("import no_such_module_here\n", ":flights", ":1:1: running it failed: ModuleNotFoundError: No module"),
    ],
)
def test_a_module_that_has_no_pipeline_says_so_in_a_line(module: Path, change: str, target: str, said: str) -> None:
    module.write_text(change)
    with pytest.raises(SpecErrors) as refused:
        load(f"{module}{target}")
    assert str(refused.value).startswith(f"{module}{said}")


def test_a_name_is_taken_once_and_a_whole_step_decorates_nothing() -> None:
    pipe = pipeline("p")
    pipe.source("a", topics=["a"])
    pipe.source("a", topics=["b"])
    pipe.sink("out", topic="c")
    with pytest.raises(SpecErrors, match="the name a is taken"):
        pipe.spec()
    whole = pipe.step("b", sql="select * from a")
    with pytest.raises(TypeError, match="does not decorate"):
        whole(lambda rows: rows)


def test_expectations_of_a_call_share_what_becomes_of_a_row() -> None:
    pipe = pipeline("p")
    pipe.source("a", topics=["a"])
    pipe.expect("ok", {"x": "true", "y": "false"}, on_fail="drop")
    pipe.sink("out", topic="c")
    (step,) = pipe.spec().steps
    assert isinstance(step.action, Expect)
    assert [(each.name, each.check, each.on_fail) for each in step.action.expect] == [
        ("x", "true", "drop"),
        ("y", "false", "drop"),
    ]
