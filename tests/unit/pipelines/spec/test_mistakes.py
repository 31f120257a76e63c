"""Every kind of mistake is told with its place and what to write instead, all of a file together."""

from pathlib import Path

import pytest

from ottla.pipelines import spec
from tests.unit.pipelines.spec.pipeline_files import WHOLE, WHOLE_YAML

HERE = "▸"
"""Stands in a changed file where the mistake must be told, and is taken out before it is read."""


def mistakes_of(text: str, file: str = "p.toml", directory: Path = Path("/nowhere")) -> list[spec.Mistake]:
    found, mistakes = spec.check_text(text.encode(), file=file, directory=directory)
    assert (found is None) == any(each.severity == "error" for each in mistakes)
    return mistakes


def place_of_mark(text: str) -> tuple[str, int, int]:
    before, mark, after = text.partition(HERE)
    assert mark
    return before + after, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _cases() -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """The blocks of mistakes.txt, of TOML and of YAML: old text, new text, what is said."""
    toml, yaml = Path(__file__).with_name("mistakes.txt").read_text().split("\n# YAML\n")
    return _blocks(toml), _blocks(yaml)


def _blocks(text: str) -> list[tuple[str, str, str]]:
    found = []
    for block in text.strip().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            old, new, said = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+!")
            found.append((old, new, said))
    return found


TOML_CASES, YAML_CASES = _cases()


@pytest.mark.parametrize(("old", "new", "said"), TOML_CASES)
def test_a_mistake_is_told_where_it_stands(old: str, new: str, said: str) -> None:
    assert old in WHOLE
    changed = WHOLE.replace(old, new, 1)
    line = column = None
    if HERE in changed:
        changed, line, column = place_of_mark(changed)
    told = [str(each).removeprefix("p.toml:").split(": ", 1) for each in mistakes_of(changed)]
    assert said in [text for _, text in told], "\n".join(map(str, mistakes_of(changed)))
    if line is not None:
        assert [f"{line}:{column}", said] in told, told


@pytest.mark.parametrize(("old", "new", "said"), YAML_CASES)
def test_a_mistake_in_yaml_is_told_where_it_stands(old: str, new: str, said: str) -> None:
    assert old in WHOLE_YAML
    told = [str(each).removeprefix("p.yaml:") for each in mistakes_of(WHOLE_YAML.replace(old, new, 1), "p.yaml")]
    assert said in told, told


def test_all_mistakes_of_a_file_are_told_together_in_its_order() -> None:
    text = WHOLE
    for old, new in [('"2 seconds"', "2"), ('"lake/delays"', "5"), ("max_records", "max_record"), ("1 day", "1 dog")]:
        text = text.replace(old, new, 1)
    told = mistakes_of(text)
    assert [(each.line, each.column) for each in told] == [(3, 11), (11, 1), (31, 43), (55, 11)]
    assert told == sorted(told)


def test_steps_that_read_each_other_are_told_as_a_circle() -> None:
    text = WHOLE.replace('name = "sane"\n', 'name = "sane"\ninput = "once"\n').replace(
        'name = "once"\n', 'name = "once"\ninput = "sane"\n'
    )
    assert [str(each) for each in mistakes_of(text)] == [
        "p.toml:27:9: steps read each other in a circle: sane -> once -> sane (one must read something else)"
    ]


def test_the_steps_that_read_a_wrong_one_are_not_wrong_for_it() -> None:
    assert len(mistakes_of(WHOLE.replace('check = "delay_min', 'chek = "delay_min'))) == 2  # unknown, and missing
    assert len(mistakes_of(WHOLE.replace("deduplicate =", "dedupe ="))) == 2


def test_what_only_a_sink_with_a_wrong_name_reads_is_not_warned_of() -> None:
    told = mistakes_of(WHOLE.replace('[[sinks]]\nname = "delays"', '[[sinks]]\nname = "hourly"', 1))
    assert len(told) == 1, told
    assert "the name hourly is taken" in str(told[0])


def test_a_step_and_a_source_that_nothing_reads_are_warned_of_and_the_file_is_taken() -> None:
    text = WHOLE.replace('input = "named"', 'input = "sane"').replace('input = "hourly"', 'input = "sane"')
    found, told = spec.check_text(text.encode(), file="p.toml", directory=Path())
    assert found is not None
    assert [str(each) for each in told] == ["p.toml:37:1: warning: nothing reads step hourly (a sink or a step would)"]
    assert told[0].severity == "warning"


def test_without_an_input_a_step_must_have_one_stream_to_read() -> None:
    second = '[sources.more]\ntopics = ["more"]\n[[steps]]\nname = "any"\nexpect = [{ name = "a", check = "true" }]\n'
    text = WHOLE.replace("[[steps]]", second + "[[steps]]", 1)
    assert "step any does not say what it reads (input = one of events, more)" in str(mistakes_of(text)[0])


def test_a_pipeline_that_reads_only_tables_is_refused() -> None:
    text = WHOLE.replace('start = "earliest"\ngroup', "table = true\ngroup")
    assert "every source is a table: nothing would come in" in str(mistakes_of(text)[0])


def test_an_empty_file_says_what_a_pipeline_must_have() -> None:
    for file in ("p.toml", "p.yaml"):
        assert [str(each) for each in mistakes_of("", file)] == [
            f"{file}:1:1: the pipeline has no name (it must say name = ...)",
            f"{file}:1:1: the pipeline has no sinks (it must have a [[sinks]] with a topic, parquet or delta)",
            f"{file}:1:1: the pipeline has no sources (it must have a [sources.NAME] with topics)",
        ]


@pytest.mark.parametrize(
    ("content", "file", "said"),
    [
        (b"name = flights", "p.toml", "1:8: this is not TOML: Invalid value (strings need quotation marks)"),
        (
            b"name = 'a'\nname = 'b'",
            "p.toml",
            "2:11: this is not TOML: Cannot overwrite a value (this key or table",
        ),
        (b"a = 1\nb = '\xff'", "p.toml", "2:6: the file is not UTF-8 (save it as UTF-8)"),
        (b"name: a", "p.json", "1:1: a pipeline file ends in .toml, .yaml or .yml, not .json"),
        (b"- a", "p.yaml", "1:1: a pipeline file is a table, not a list (it begins with name = ...)"),
        (b"#" * (1024 * 1024 + 1), "p.toml", "1:1: the file is larger than 1048576 bytes (rows belong into topics)"),
        (b"a = " + b"[" * 40 + b"]" * 40, "p.toml", "1:37: values nest deeper than 32"),
        (b"a = " + b"[" * 90_000 + b"]" * 90_000, "p.toml", "1:1: values nest deeper than 32"),
        (b"a: " + b"[" * 90_000 + b"]" * 90_000, "p.yaml", "1:36: values nest deeper than 32"),
        (b".".join([b"a"] * 90) + b" = 1", "p.toml", "1:65: values nest deeper than 32"),
        (b"[[steps]]\n" * 1001, "p.toml", "1:1: the file has more than 1000 sources, steps, sinks and tests"),
    ],
)
def test_what_is_no_pipeline_file_at_all_is_told_in_one_line(content: bytes, file: str, said: str) -> None:
    found, told = spec.check_text(content, file=file, directory=Path())
    assert found is None
    assert any(str(each).startswith(f"{file}:{said}") for each in told), told


def test_functions_that_are_not_in_their_module_are_missed(tmp_path: Path) -> None:
    (tmp_path / "enrich.py").write_text("def enrich(rows): return rows\n")
    (tmp_path / "broken.py").write_text("def enrich(rows:\n")
    old = 'sql = "select * from events where flight is not null"'
    for target, said in {
        "enrich:enrch": "enrich.py has no enrch (it must define it: def enrch(...))",
        "broken:enrich": "broken.py is not Python: '(' was never closed (look at its line 1)",
    }.items():
        told = mistakes_of(WHOLE.replace(old, f'python = "{target}"'), directory=tmp_path)
        assert [str(each) for each in told] == [f"p.toml:23:10: {said}"]
