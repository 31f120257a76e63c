"""The graph of a pipeline: sources, steps, sinks and dead letters, and the edges between them."""

from typing import Literal, TypeAlias

from msgspec import Struct

from ottla.pipelines.spec.lineage import dead_letter_owners
from ottla.pipelines.spec.model import (
    Action,
    Deduplicate,
    Expect,
    Join,
    PipelineSpec,
    Python,
    Sink,
    Source,
    Sql,
    State,
    TopicSink,
    Window,
)

Kind: TypeAlias = Literal["stream", "table", "step", "sink", "dead_letters"]


class GraphNode(Struct, frozen=True):
    """A node: its name, its kind, and a line of details."""

    name: str
    kind: Kind
    what: str
    """The kind: `stream`, `sql`, `window`, `topic`, ..."""
    detail: str


class GraphEdge(Struct, frozen=True):
    """An edge; `dead_letters` marks one for refused rows only."""

    start: str
    end: str
    dead_letters: bool = False


class Graph(Struct, frozen=True):
    """All nodes in the order of the file, and all edges."""

    pipeline: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


def graph_of(spec: PipelineSpec) -> Graph:
    """The graph of a pipeline. All dead letters share one node, whichever sink writes them."""
    nodes = [_of_source(source) for source in spec.sources.values()]
    nodes += [GraphNode(step.name, "step", _word(step.action), _of_action(step.action)) for step in spec.steps]
    nodes += [_of_sink(sink) for sink in spec.sinks]
    edges = [GraphEdge(each, name) for name, inputs in spec.inputs().items() for each in inputs]
    if spec.dead_letters is not None:
        box = "dead letters"  # no part can be called so: names have no spaces
        nodes.append(GraphNode(box, "dead_letters", "topic", spec.dead_letters.topic))
        edges += [GraphEdge(name, box, dead_letters=True) for name in dead_letter_owners(spec)]
    return Graph(spec.name, tuple(nodes), tuple(edges))


def _of_source(source: Source) -> GraphNode:
    kind: Kind = "table" if source.table else "stream"
    return GraphNode(source.name, kind, kind, ", ".join(source.topics) or f"/{source.pattern}/")


def _of_sink(sink: Sink) -> GraphNode:
    if isinstance(sink, TopicSink):
        return GraphNode(sink.name, "sink", "topic", sink.topic)
    return GraphNode(sink.name, "sink", sink.format, sink.path)


def _word(action: Action) -> str:
    return type(action).__name__.lower()


def _of_action(action: Action) -> str:
    match action:
        case Sql():
            return " ".join(action.sql.split())
        case Expect():
            return ", ".join(f"{each.name}: {each.on_fail}" for each in action.expect)
        case Deduplicate():
            return f"{', '.join(action.by)} within {_duration(action.within_ms)}"
        case Window():
            by = f" by {', '.join(action.by)}" if action.by else ""
            return f"{_duration(action.every_ms)}{by}"
        case Join():
            return f"{action.how} with {action.other} on {action.on}"
        case Python() | State():
            return action.python


def _duration(milliseconds: int) -> str:
    for name, length in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000)):
        if milliseconds >= length and milliseconds % length == 0:
            count = milliseconds // length
            return f"{count} {name}" + ("s" if count != 1 else "")
    return f"{milliseconds} ms"
