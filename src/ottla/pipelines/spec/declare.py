"""Declares a pipeline in Python: the same parts with the same names as in a file; steps may be functions.

    from ottla.pipelines import pipeline

    flights = pipeline("flights", dead_letters={"topic": "flights.dead-letters"})
    flights.source("events", topics=["flights.events"], format="json", schema="carrier string, delay_min int")

    @flights.step(input="events")
    def late(events):
        return events.where("delay_min > 15")

    flights.expect("sane", {"delay": "delay_min < 2000"}, on_fail="dlq")
    flights.sink("delays", topic="flights.delays", key="carrier")

What is said is checked as a file is, all of it together when `spec()` is called; places are the lines of the calls.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ottla.pipelines.spec.convert import Converter
from ottla.pipelines.spec.document import Node
from ottla.pipelines.spec.mistake import Mistake, Position, SpecErrors
from ottla.pipelines.spec.model import PipelineSpec
from ottla.pipelines.spec.reading import assemble

_Function = TypeVar("_Function", bound=Callable[..., Any])


def pipeline(name: str, **whole: Any) -> "Pipeline":
    """A new pipeline without parts; `whole` are the keys above the parts of a file, `dead_letters` and `audit` too."""
    return Pipeline(name, whole, sys._getframe(1).f_code.co_filename, _line())


class Pipeline:
    """A pipeline under construction. Not thread-safe."""

    def __init__(self, name: str, whole: Mapping[str, Any], file: str, line: int) -> None:
        self._file = file
        self._root: dict[str, Node] = {key: _node(value, line) for key, value in {"name": name, **whole}.items()}
        self._line = line
        self._sources: dict[str, Node] = {}
        self._lists: dict[str, list[Node]] = {"steps": [], "sinks": [], "tests": []}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._again: list[Mistake] = []

    def source(self, name: str, **parts: Any) -> None:
        """Add a source of topics; takes the keys of [sources.NAME]."""
        line = _line()
        if name in self._sources:
            self._again.append(Mistake(self._file, line, 1, f"the name {name} is taken", "sources need their own"))
        self._sources[name] = _node(parts, line)

    def step(self, name: str | None = None, **parts: Any) -> Callable[[_Function], _Function]:
        """Add a step. With `sql`, `window`, `join` or another of the keys of [[steps]] the call is complete.

        Without one it is a decorator: for a function of DataFrames, or, with `by` and `schema`, for a
        StatefulProcessor. The name of the function or class is then the step's, unless `name` is given.
        """
        line = _line()
        if parts.keys() - {"input", "by", "schema", "mode", "time", "late"}:
            self._add("steps", {"name": name, **parts}, line)
            return _no_decorator

        def decorate(function: _Function) -> _Function:
            said = name or function.__name__
            target = f"{function.__module__.replace('__main__', 'main')}:{function.__name__}"
            inner = {key: value for key, value in parts.items() if key != "input"}
            does = {"state": {"python": target, **inner}} if inner else {"python": target}
            given = {"input": parts["input"]} if "input" in parts else {}
            self._functions[said] = function
            self._add("steps", {"name": said, **given, **does}, line)
            return function

        return decorate

    def expect(self, name: str, checks: Mapping[str, str], *, on_fail: str = "warn", input: str | None = None) -> None:  # noqa: A002
        """Add a step of expectations, from name to condition, all with the same `on_fail`."""
        expectations = [{"name": each, "check": check, "on_fail": on_fail} for each, check in checks.items()]
        self._add("steps", {"name": name, "input": input, "expect": expectations}, _line())

    def sink(self, name: str, **parts: Any) -> None:
        """Add a sink; takes the keys of [[sinks]]."""
        self._add("sinks", {"name": name, **parts}, _line())

    def test(self, name: str, **parts: Any) -> None:
        """Add a test with given and expected rows; takes the keys of [[tests]]."""
        self._add("tests", {"name": name, **parts}, _line())

    def spec(self) -> PipelineSpec:
        """The specification of this pipeline. Raises SpecErrors with all mistakes."""
        convert = Converter(self._file)
        convert.mistakes += self._again
        at = Position(self._line, 1)
        values = dict(self._root)
        values["sources"] = _node(self._sources, self._line)
        values |= {key: Node(nodes, at) for key, nodes in self._lists.items() if nodes}
        root = Node(values, at, dict.fromkeys(values, at))
        found = assemble(root, convert, Path(self._file).parent, functions=self._functions)
        if found is None:
            raise SpecErrors(set(convert.mistakes))
        return found

    def _add(self, key: str, parts: dict[str, Any], line: int) -> None:
        self._lists[key].append(_node({each: value for each, value in parts.items() if value is not None}, line))


def _no_decorator(function: _Function) -> _Function:
    raise TypeError(f"a step with sql, window, join or the like does not decorate {function.__name__}: it is whole")


def _line() -> int:
    """The line that called what calls this."""
    return sys._getframe(2).f_lineno


def _node(value: Any, line: int) -> Node:
    at = Position(line, 1)
    if isinstance(value, Node):
        return value
    if isinstance(value, Mapping):
        return Node({str(key): _node(each, line) for key, each in value.items()}, at, {str(key): at for key in value})
    if isinstance(value, list | tuple):
        return Node([_node(each, line) for each in value], at)
    return Node(value.isoformat() if hasattr(value, "isoformat") else value, at)
