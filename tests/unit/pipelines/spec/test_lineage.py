"""What reads through what."""

from pathlib import Path

from ottla.pipelines import spec
from ottla.pipelines.spec.lineage import dead_letter_owners, tables, upstream
from tests.unit.pipelines.spec.pipeline_files import WHOLE


def _read(text: str) -> spec.PipelineSpec:
    found, mistakes = spec.check_text(text.encode(), file="p.toml", directory=Path())
    assert found is not None, mistakes
    return found


def test_all_that_stands_above_a_sink_is_found_in_the_order_of_the_file() -> None:
    whole = _read(WHOLE)
    assert upstream(whole, "lake") == ("events", "airlines", "flown", "sane", "once", "named")
    assert upstream(whole, "events") == ()


def test_a_step_over_tables_alone_is_a_table() -> None:
    step = '[[steps]]\nname = "big"\nsql = "select * from airlines"\n\n[[steps]]\nname = "flown"'
    text = WHOLE.replace('[[steps]]\nname = "flown"', step, 1).replace('with = "airlines"', 'with = "big"')
    assert tables(_read(text)) == {"airlines", "big"}


def test_the_first_sink_that_reads_through_a_step_writes_its_dead_letters() -> None:
    whole = _read(WHOLE)
    assert dead_letter_owners(whole) == {"events": "delays", "airlines": "delays", "sane": "delays"}
    late = _read(WHOLE.replace('input = "hourly"', 'input = "flown"'))
    assert dead_letter_owners(late) == {"events": "delays", "airlines": "lake", "sane": "lake"}
