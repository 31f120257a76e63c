"""A pipeline while its file is read: what could be read so far, and the places that mistakes point to."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

from ottla.pipelines.spec.convert import Converter
from ottla.pipelines.spec.document import Node
from ottla.pipelines.spec.mistake import Position
from ottla.pipelines.spec.model import Sink, Source, Step, TestCase


class Draft(Struct, kw_only=True):
    """The parts of a pipeline. A part that could not be read is missing among them, its name is known all the same."""

    convert: Converter
    root: Node
    name: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    """The tables of the sources, steps and sinks, by name."""
    source_names: tuple[str, ...] = ()
    step_names: tuple[str, ...] = ()
    sink_names: tuple[str, ...] = ()
    sources: dict[str, Source] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    tests: list[tuple[TestCase, Node]] = field(default_factory=list)
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """What steps do that were declared in Python."""

    def names(self) -> tuple[str, ...]:
        """What can be read: sources and steps."""
        return (*self.source_names, *self.step_names)

    def place(self, name: str, *path: str | int) -> Position:
        """Where a value of a source, step or sink stands; where the part itself does, when the value does not."""
        return place(self.nodes[name], *path)

    def error(self, at: Position, message: str, hint: str = "") -> None:
        """Reports a mistake."""
        self.convert.error(at, message, hint)

    def readers(self, name: str) -> Iterator[str]:
        """The steps and sinks that read a name."""
        yield from (step.name for step in self.steps if name in step.inputs)
        yield from (sink.name for sink in self.sinks if sink.input == name)


def place(node: Node, *path: str | int) -> Position:
    """Where the value at `path` below a node stands; of what is missing, the last that is there."""
    for key in path:
        below = node.value
        inside = key in below if isinstance(below, dict) else isinstance(below, list) and key in range(len(below))
        if not inside:
            break
        node = below[key]
    return node.at
