"""The examples in docstrings give what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

import ottla

SOURCE = Path(ottla.__file__).parent.parent

WITH_EXAMPLES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for package in ("ottla", "pyspark_ottla")
    for path in sorted((SOURCE / package).rglob("*.py"))
    if any(">>> " in line and "+SKIP" not in line for line in path.read_text().splitlines())
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_give_what_they_say(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0
    assert found.attempted
