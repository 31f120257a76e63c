"""What reads what: which names are tables, what stands above a sink, and which sink writes a step's dead letters."""

from collections.abc import Mapping

from ottla.pipelines.spec.model import Expect, PipelineSpec


def tables(spec: PipelineSpec) -> frozenset[str]:
    """The names that are tables: sources that say so, and steps that read nothing else."""
    found = {name for name, source in spec.sources.items() if source.table}
    for step in spec.steps:
        if all(name in found for name in step.inputs):
            found.add(step.name)
    return frozenset(found)


def upstream(spec: PipelineSpec, name: str) -> tuple[str, ...]:
    """All sources and steps that a step or sink reads through, in the order of the file."""
    return above(spec.inputs(), name)


def above(inputs: Mapping[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    """As `upstream`, of what each name reads."""
    found: set[str] = set()
    ways = list(inputs.get(name, ()))
    while ways:
        each = ways.pop()
        if each not in found:
            found.add(each)
            ways.extend(inputs.get(each, ()))
    return tuple(each for each in inputs if each in found)


def through(spec: PipelineSpec, name: str) -> frozenset[str]:
    """The sources and steps that a step or sink reads through, itself included."""
    return frozenset((name, *upstream(spec, name)))


def owned(spec: PipelineSpec, sink: str) -> tuple[str, ...]:
    """The sources and steps whose dead letters a sink writes: those it reads through that no sink before it does."""
    taken: set[str] = set()
    for each in spec.sinks:
        here = upstream(spec, each.name)
        if each.name == sink:
            return tuple(name for name in here if name not in taken)
        taken.update(here)
    raise KeyError(sink)


def dead_letter_owners(spec: PipelineSpec) -> dict[str, str]:
    """Which sink writes the dead letters of each source and step that may have some: the first that reads through it.

    A source has some when its values are decoded, a step when an expectation of it says `dlq`.
    """
    lettered = [name for name, source in spec.sources.items() if source.format not in ("raw", "text")]
    lettered += [
        step.name
        for step in spec.steps
        if isinstance(step.action, Expect) and any(each.on_fail == "dlq" for each in step.action.expect)
    ]
    return {name: sink.name for sink in spec.sinks for name in owned(spec, sink.name) if name in lettered}
