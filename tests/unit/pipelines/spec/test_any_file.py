"""Whatever stands in a file, it gives a pipeline or mistakes with places, and no place is made up."""

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipelines import spec
from ottla.pipelines.spec.document import DocumentError, Node
from ottla.pipelines.spec.toml_document import read_toml
from ottla.pipelines.spec.yaml_document import read_yaml
from tests.unit.pipelines.spec.pipeline_files import WHOLE, WHOLE_YAML

_FILES = {"p.toml": WHOLE, "p.yaml": WHOLE_YAML}
_WORDS = """
" ' [ ] [[ { } = : , # &a *a !! \'\'\' \\ 0 -1 1e999 true null '' [] {} 2013-06-01 é \ud7ff a.b ( ) ` select
steps input name join with sql from sources topics
"""
_PIECES = st.sampled_from([*_WORDS.split(), "\n", "- ", '"""', "\0", "  "])


@st.composite
def changed_files(draw: st.DrawFn) -> tuple[str, str]:
    file = draw(st.sampled_from(sorted(_FILES)))
    text = _FILES[file]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.sampled_from([0, 1, 3, 12, 60])))
        match draw(st.integers(0, 2)):
            case 0:
                text = text[:at] + draw(_PIECES) + text[end:]
            case 1:
                text = text[:at] + text[end:]
            case _:
                lines = text.split("\n")
                first = draw(st.integers(0, len(lines) - 1))
                second = draw(st.integers(0, len(lines) - 1))
                lines[first], lines[second] = lines[second], lines[first]
                text = "\n".join(lines)
    return file, text


@settings(max_examples=150, deadline=None, derandomize=True)
@given(changed_files())
def test_a_changed_file_gives_a_pipeline_or_mistakes_that_stand_in_it(changed: tuple[str, str]) -> None:
    file, text = changed
    found, mistakes = spec.check_text(text.encode("utf-8", "surrogatepass"), file=file, directory=Path("/nowhere"))
    assert (found is None) == any(each.severity == "error" for each in mistakes)
    assert mistakes == sorted(set(mistakes))
    lines = text.replace("\r\n", "\n").split("\n")
    for each in mistakes:
        assert 1 <= each.line <= len(lines) + 1
        assert each.column >= 1
        assert each.message


_KEYS = st.text("abc_-", min_size=1, max_size=3) | st.sampled_from(["a b", "", 'q"q', "é.x", "#"])
_LEAVES = st.integers(-5, 2**40) | st.booleans() | st.text("abc \"\\#[]{},=\n'", max_size=12)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=12
)


def _toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str() if "\n" in value and "'''" not in value and not value.endswith("'") and not value.startswith("\n"):
            return f"'''{value}'''"
        case str():
            return _quoted(value)
        case list():
            return "[ # ]\n" + ",\n".join(map(_toml, value)) + "]"
        case _:
            return "{ " + ", ".join(f"{_quoted(key)} = {_toml(each)}" for key, each in value.items()) + " }"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _check_places(node: Node, lines: list[str]) -> None:
    """Keys stand where their places say; so do texts, tables and lists by their first characters."""
    text = lines[node.at.line - 1][node.at.column - 1 :]
    if isinstance(node.value, bool):
        assert text.startswith("true" if node.value else "false")
    elif isinstance(node.value, int):
        assert text.startswith(str(node.value))
    elif isinstance(node.value, str):
        assert text.startswith(("'''", _quoted(node.value)))
    elif isinstance(node.value, list):
        assert text.startswith("[")
        for each in node.value:
            _check_places(each, lines)
    else:
        assert text.startswith(("{", "["))
        _check_table(node, lines)


def _check_table(node: Node, lines: list[str]) -> None:
    for key, each in node.value.items():
        at = node.keys[key]
        text = lines[at.line - 1][at.column - 1 :]
        assert text.startswith((_quoted(key), "["))
        _check_places(each, lines)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.dictionaries(_KEYS, _VALUES, max_size=4), st.lists(st.dictionaries(_KEYS, _VALUES, max_size=2), max_size=3))
def test_every_value_of_toml_is_found_where_it_stands(table: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    text = "".join(f"{_quoted(key)} = {_toml(value)} # {{\n" for key, value in table.items())
    for row in rows:
        text += '[["the rows"]]\n' + "".join(f"{_quoted(key)}={_toml(value)}\n" for key, value in row.items())
        text += '[ "the rows".below . "a.b" ]\n"x" = 1\n'
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # a line break in a table of one line, which TOML 1.0 does not have
        return
    found = read_toml(text)
    assert found.plain() == values
    _check_table(found, text.split("\n"))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.text("ab :-[]{}&*!|>'\"#,?\n\t0", max_size=60))
def test_any_yaml_is_read_or_refused(text: str) -> None:
    with suppress(DocumentError):
        read_yaml(text)
