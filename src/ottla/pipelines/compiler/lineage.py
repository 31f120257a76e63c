"""What a sink reads through, and whose dead letters it writes."""

from ottla.pipelines.spec.model import PipelineSpec


def through(spec: PipelineSpec, name: str) -> frozenset[str]:
    """The sources and steps that a step or sink reads through, itself included."""
    inputs, found, left = spec.inputs(), set[str](), [name]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left.extend(inputs[each])
    return frozenset(found)


def owned(spec: PipelineSpec, sink: str) -> tuple[str, ...]:
    """The sources and steps whose dead letters a sink writes: those it reads through that no sink before it does."""
    taken: set[str] = set()
    for each in spec.sinks:
        here = through(spec, each.name)
        if each.name == sink:
            return tuple(name for name in spec.inputs() if name in here - taken and name != sink)
        taken |= here
    raise KeyError(sink)
