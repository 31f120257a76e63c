"""The lazy data classes against those of the standard library, which is the oracle."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from dataclasses import field
from typing import Any, ClassVar, cast

import pytest

from ottla.model import lazy_dataclass


def _declare(decorator: Any, **options: Any) -> type[Any]:
    @decorator(slots=True, **options)
    class Point:
        """A point."""

        KIND: ClassVar[str] = "point"
        x: int
        tags: list[str] = field(default_factory=list)
        size: int = field(init=False, default=7)
        label: str | None = None

        def moved(self) -> "Point":
            changed: Point = dataclasses.replace(cast("Any", self), x=self.x + 1)
            return changed

    return Point


PLAIN, FROZEN, BY_IDENTITY, BY_KEYWORD = {}, {"frozen": True}, {"frozen": True, "eq": False}, {"kw_only": True}
KINDS = [PLAIN, FROZEN, BY_IDENTITY, BY_KEYWORD]


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryPair:
    left: int
    right: str = "r"


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: str = "r"


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Triple(Pair):
    third: float = 0.5


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_instances_look_and_compare_as_those_of_the_library(options: dict[str, bool]) -> None:
    ours, library = _declare(lazy_dataclass.dataclass, **options), _declare(dataclasses.dataclass, **options)
    several: tuple[dict[str, Any], ...] = ({"x": 1}, {"x": 2, "label": "b", "tags": ["t"]})
    for arguments in several:
        assert repr(ours(**arguments)) == repr(library(**arguments))
        assert dataclasses.asdict(ours(**arguments)) == dataclasses.asdict(library(**arguments))
        assert (ours(**arguments) == ours(**arguments)) == (library(**arguments) == library(**arguments))
        assert ours(**arguments).moved().x == arguments["x"] + 1
    assert ours(x=1) != ours(x=2)
    assert [each.name for each in dataclasses.fields(ours)] == [each.name for each in dataclasses.fields(library)]
    assert ours.__match_args__ == library.__match_args__
    assert ours(x=1).tags is not ours(x=1).tags


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_what_the_library_refuses_is_refused(options: dict[str, bool]) -> None:
    for declared in (_declare(lazy_dataclass.dataclass, **options), _declare(dataclasses.dataclass, **options)):
        for arguments in ({}, {"x": 1, "size": 2}, {"x": 1, "unknown": 2}):
            with pytest.raises(TypeError):
                declared(**arguments)
        with pytest.raises((AttributeError, TypeError)):
            declared(x=1).unknown = 2
        if options.get("frozen"):
            with pytest.raises(dataclasses.FrozenInstanceError):
                declared(x=1).x = 2
            with pytest.raises(dataclasses.FrozenInstanceError):
                del declared(x=1).x
        else:
            point = declared(x=1)
            point.x = 2
            assert point.x == 2


def test_equal_values_hash_alike_and_mutable_ones_not_at_all() -> None:
    assert hash(Pair(1)) == hash(Pair(1, "r")) == hash(LibraryPair(1))
    assert {Pair(1): "found"}[Pair(1)] == "found"
    with pytest.raises(TypeError):
        hash(_declare(lazy_dataclass.dataclass)(x=1))
    by_identity = _declare(lazy_dataclass.dataclass, **BY_IDENTITY)(x=1)
    assert {by_identity: 1}[by_identity] == 1


def test_a_field_of_a_base_class_comes_first() -> None:
    assert repr(Triple(1, "b", 2.0)) == "Triple(left=1, right='b', third=2.0)"
    assert Triple(1) == Triple(1, "r", 0.5) != Pair(1)


def test_values_survive_pickle_and_copy() -> None:
    for value in (Pair(3, "p"), Triple(4)):
        assert pickle.loads(pickle.dumps(value)) == value
        assert copy.copy(value) == value


def test_a_pattern_takes_a_value_apart() -> None:
    match Pair(5, "five"):
        case Pair(left, right):
            assert (left, right) == (5, "five")


@pytest.mark.slow
def test_the_broker_is_imported_without_compiling_methods_of_data_classes() -> None:
    """What `ottla serve` pays before it can begin: nothing for the methods of its two hundred and fifty classes."""
    program = """
import dataclasses
compiled = []
library = dataclasses._process_class
dataclasses._process_class = lambda cls, *rest: compiled.append(cls.__qualname__) or library(cls, *rest)
import ottla.server.serve
print(*(name for name in compiled))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
