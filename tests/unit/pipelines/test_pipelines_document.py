"""The grammar that docs/pipelines.md shows is the one that is read, part by part."""

from pathlib import Path

import msgspec
import pytest

from ottla.pipelines import spec
from ottla.pipelines.spec import model
from tests.system.document import ROOT, blocks

DOCUMENT = "docs/pipelines.md"

PARTS = {
    "name": 'name = "flights"\n',
    "[sources.events]": """
[sources.events]
topics = ["flights.events"]
format = "json"
schema = "flight string, carrier string, delay_min int, scheduled_at timestamp"
""",
    "[sources.landings]": """
[sources.landings]
topics = ["flights.landings"]
format = "json"
schema = "flight string, landed_at timestamp"
""",
    "[sources.airlines]": """
[sources.airlines]
topics = ["flights.airlines"]
table = true
format = "json"
key = "code"
schema = "airline string"
""",
    "[[sinks]]": '[[sinks]]\nname = "out"\ninput = "events"\ntopic = "out"\n',
    "[dead_letters]": '[dead_letters]\ntopic = "dead"\n',
}
"""What a block that shows one part is completed with, where it does not have it."""


def whole(block: str) -> str:
    """A block as a file of its own."""
    missing = [part for begin, part in PARTS.items() if not any(line.startswith(begin) for line in block.splitlines())]
    if block.startswith("name = "):
        return block
    if "landings" not in block:
        missing.remove(PARTS["[sources.landings]"])
    if "[[steps]]" in block:
        return "\n".join(
            [PARTS["name"], *(part for part in missing if "[[sinks]]" not in part), block, PARTS["[[sinks]]"]]
        )
    return "\n".join([PARTS["name"], *(part for part in missing if part != PARTS["name"]), block])


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A directory with the modules that the document shows."""
    for block in blocks(DOCUMENT, "python"):
        first, _, _ = block.partition("\n")
        (tmp_path / first.removeprefix("# ")).write_text(block)
    return tmp_path


@pytest.mark.parametrize("index", range(len(blocks(DOCUMENT, "toml"))))
def test_every_example_is_a_part_of_a_pipeline(index: int, modules: Path) -> None:
    text = whole(blocks(DOCUMENT, "toml")[index])
    found, mistakes = spec.check_text(text.encode(), file=str(modules / "p.toml"), directory=modules)
    assert found is not None, (text, mistakes)
    assert all("nothing reads" in each.message for each in mistakes)


def test_the_example_in_yaml_is_a_pipeline() -> None:
    (block,) = blocks(DOCUMENT, "yaml")
    _, mistakes = spec.check_text(block.encode(), file="p.yaml", directory=Path())
    assert mistakes == []


def test_the_example_in_python_is_a_pipeline_with_its_function(modules: Path) -> None:
    found = spec.load(f"{modules / 'flights.py'}:flights")
    late, _, short = found.steps
    assert callable(late.action.function)
    assert short.inputs == ("sane",)
    assert len(found.tests) == 1


def test_every_key_of_the_grammar_is_in_the_document() -> None:
    text = (ROOT / DOCUMENT).read_text()
    structs = [each for each in vars(model).values() if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    resolved = {
        "inputs",
        "action",
        "directory",
        "places",
        "function",
        "processor",
        "format",
        "path",
        "sources",
        "steps",
        "sinks",
        "tests",
    }
    for struct in structs:
        for field in msgspec.structs.fields(struct):
            if field.encode_name not in resolved:
                key = field.encode_name
                assert any(each in text for each in (f"{key}`", f"{key} = ", f"[{key}]", f"{key}.")), (struct, key)


def test_the_pipeline_of_the_demo_has_no_mistakes() -> None:
    _, mistakes = spec.check(ROOT / "examples" / "flights" / "pipeline.toml")
    assert mistakes == []
