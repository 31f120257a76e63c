"""`late_rows`: where a step may set late rows aside, and who writes them."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ottla.pipelines.spec.event_time import ANY_YEAR, IN_PYTHON
from ottla.pipelines.spec.lineage import dead_letter_owners, shift_years, windows_counting_late_rows
from ottla.pipelines.spec.model import State, Step
from ottla.pipelines.spec.reading import check_text

FILE = """
name = "p"
[sources.a]
topics = ["a"]
[sources.b]
topics = ["b"]
[sources.names]
topics = ["names"]
table = true
[[steps]]
name = "joined"
input = "a"
join = { with = "b", on = "a.key = b.key", within = "1 hour", time = "timestamp", with_time = "timestamp"JOIN }
[[steps]]
name = "last"
STEP
[[sinks]]
name = "out"
topic = "out"
"""
DEDUPLICATE = 'deduplicate = { by = ["key"], within = "1 hour", time = "timestamp", late_rows = "dead-letter" }'
LETTERS = '[dead_letters]\ntopic = "dead"\n'


def checked(step: str, join: str = "", end: str = LETTERS):
    text = FILE.replace("JOIN", join).replace("STEP", step) + end
    return check_text(text.encode(), file="p.toml", directory=Path("/srv"))


@pytest.mark.parametrize(
    ("step", "end", "mistake"),
    [
        (
            DEDUPLICATE,
            LETTERS,
            "step last cannot set late rows aside: behind the join joined rows are late by themselves",
        ),
        ('input = "a"\n' + DEDUPLICATE, "", "step last sets late rows aside, and the pipeline does not say where"),
        (
            'join = { with = "names", on = "joined.key = names.key", late_rows = "dead-letter" }',
            LETTERS,
            "late_rows in step last has no effect: names is a table",
        ),
        ('input = "a"\n' + DEDUPLICATE.replace("dead-letter", "keep"), LETTERS, "keep"),
    ],
)
def test_what_makes_no_sense_is_a_mistake(step, end, mistake):
    _, mistakes = checked(step, end=end)
    assert any(mistake in each.message for each in mistakes)


def test_the_first_sink_that_reads_through_a_step_writes_its_late_rows():
    spec, mistakes = checked('sql = "select * from joined"', ', late_rows = "dead-letter"')
    assert [each.message for each in mistakes] == ["nothing reads source names"]
    assert spec is not None
    assert dead_letter_owners(spec) == {"joined": "out"}
    assert shift_years(spec) == ANY_YEAR


def test_times_are_shifted_less_beside_a_state_that_sees_them():
    spec, _ = checked('sql = "select * from joined"')
    assert spec is not None
    for time, years in (("timestamp", IN_PYTHON), (None, ANY_YEAR)):
        state = State(python="m:C", by=("key",), schema="key string", time=time)
        step = Step(name="state", inputs=("a",), action=state)
        assert shift_years(replace(spec, steps=(*spec.steps, step))) == years


@pytest.mark.parametrize(
    ("sql", "years"),
    [
        ("select count(*) from joined group by window(timestamp, '1 hour')", 0),
        ("select count(*) from joined group by session_window(timestamp, '1 hour')", 0),
        ("select * from joined join a on joined.key = a.key", 0),
        # Nothing before it has a watermark.
        ("select count(*) from b group by window(timestamp, '1 hour')", ANY_YEAR),
        ("select * from joined join names on joined.key = names.key", ANY_YEAR),
        ("select *, 'window(' from joined -- group by window(timestamp)", ANY_YEAR),
        ("select * from joined union all select * from a", ANY_YEAR),
    ],
)
def test_times_are_not_shifted_where_a_query_needs_the_watermark_of_a_step_before(sql, years):
    spec, mistakes = checked(f'sql = """{sql}"""')
    assert spec is not None, mistakes
    assert shift_years(spec) == years


def test_late_rows_are_counted_before_a_window_that_is_behind_no_join_of_streams():
    window = 'window = { time = "timestamp", every = "1 hour", aggregate = { n = "count(*)" } }'
    audit = LETTERS + '[audit]\ntopic = "audit"\n'

    def counting(step: str, end: str):
        spec, mistakes = checked(step, end=end)
        assert spec is not None, mistakes
        return windows_counting_late_rows(spec)

    alone = f'input = "a"\n{window}'
    assert counting(alone, audit) == {"last"}
    assert counting(window, audit) == set()
    assert counting(alone, LETTERS) == set()
    assert counting(alone.replace("every", 'late_rows = "dead-letter", every'), LETTERS) == {"last"}
    spec, _ = checked(alone, end=audit)
    assert spec is not None
    assert windows_counting_late_rows(replace(spec, checkpoints="s3a://bucket")) == set()


def test_times_far_ahead_of_the_clock_do_not_fit_beside_a_state_with_a_time():
    state = 'state = { python = "m:C", by = ["key"], schema = "key string", time = "timestamp" }'
    step = f'input = "a"\n{state}'
    far = FILE.replace('topics = ["a"]', 'topics = ["a"]\nahead = "200000 days"')
    said = "ahead of source a is over 500 years, and step last has a time"
    for text, found in ((far, True), (FILE, False)):
        text = text.replace("JOIN", "").replace("STEP", step)
        _, mistakes = check_text(text.encode(), file="p.toml", directory=Path("/srv"))
        assert any(said in each.message for each in mistakes) is found
