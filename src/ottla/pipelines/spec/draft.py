"""A pipeline while its file is read: the valid parts, and positions for mistakes."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

from ottla.pipelines.spec.convert import Converter
from ottla.pipelines.spec.document import Node
from ottla.pipelines.spec.mistake import Position
from ottla.pipelines.spec.model import Sink, Source, Step, TestCase


class Draft(Struct, kw_only=True):
    """The parts of a pipeline. Invalid parts are missing, but their names are known."""

    convert: Converter
    root: Node
    name: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    """The nodes of sources, steps and sinks, by name."""
    source_names: tuple[str, ...] = ()
    step_names: tuple[str, ...] = ()
    sink_names: tuple[str, ...] = ()
    sources: dict[str, Source] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    tests: list[tuple[TestCase, Node]] = field(default_factory=list)
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """The functions of steps that are declared in Python, by name of the step."""

    def names(self) -> tuple[str, ...]:
        """The names that can be inputs: sources and steps."""
        return (*self.source_names, *self.step_names)

    def place(self, name: str, *path: str | int) -> Position:
        """The position of a value of a source, step or sink; that of the part, if the value is missing."""
        return place(self.nodes[name], *path)

    def error(self, at: Position, message: str, hint: str = "") -> None:
        """Reports a mistake."""
        self.convert.error(at, message, hint)

    def readers(self, name: str) -> Iterator[str]:
        """The steps and sinks that read a name."""
        yield from (step.name for step in self.steps if name in step.inputs)
        yield from (sink.name for sink in self.sinks if sink.input == name)


def place(node: Node, *path: str | int) -> Position:
    """The position of the value at `path` below a node, or of the last value on the path that exists."""
    for key in path:
        below = node.value
        inside = key in below if isinstance(below, dict) else isinstance(below, list) and key in range(len(below))
        if not inside:
            break
        node = below[key]
    return node.at
