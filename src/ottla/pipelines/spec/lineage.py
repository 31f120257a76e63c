"""Dependencies of a pipeline: tables, inputs of a sink, and the sink that writes the dead letters of a step."""

from collections.abc import Mapping

from ottla.pipelines.spec.event_time import ANY_YEAR, IN_PYTHON
from ottla.pipelines.spec.model import DAY_MS, Deduplicate, Join, PipelineSpec, Sql, State, Step, Window
from ottla.pipelines.spec.sql_names import has_windows, joins


def tables(spec: PipelineSpec) -> frozenset[str]:
    """The names of tables: sources with `table = true`, and steps that read only tables."""
    found = {name for name, source in spec.sources.items() if source.table}
    for step in spec.steps:
        if all(name in found for name in step.inputs):
            found.add(step.name)
    return frozenset(found)


def upstream(spec: PipelineSpec, name: str) -> tuple[str, ...]:
    """All sources and steps that a step or sink reads through, in the order of the file."""
    return above(spec.inputs(), name)


def above(inputs: Mapping[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    """As `upstream`, for a mapping from each name to its inputs."""
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


def times_of(spec: PipelineSpec, source: str) -> frozenset[str]:
    """The columns of a source, in lower case, that steps use as `time`."""
    found: set[str | None] = set()
    for step in spec.steps:
        if source in through(spec, step.inputs[0]):
            found.add(getattr(step.action, "time", None))
        if isinstance(step.action, Join) and source in through(spec, step.action.other):
            found.add(step.action.with_time)
    return frozenset(each.lower() for each in found if each is not None)


def furthest_ahead_ms(spec: PipelineSpec) -> int:
    """The largest `ahead` of all sources, in milliseconds: downstream of a join a time may be from either source."""
    return max((each.ahead_ms for each in spec.sources.values() if not each.table), default=DAY_MS)


def shift_years(spec: PipelineSpec) -> int:
    """The shift of event times for Spark in years, the same for all steps of a query.

    0 where an SQL step needs the watermark of a step before: it has only the column as it is.
    """
    if any(_needs_watermark(spec, step) for step in spec.steps):
        return 0
    timed = any(isinstance(step.action, State) and step.action.time is not None for step in spec.steps)
    return IN_PYTHON if timed else ANY_YEAR


def _needs_watermark(spec: PipelineSpec, step: Step) -> bool:
    """Whether it is a query with windows, or a join of streams, behind a step with a time."""
    if not isinstance(step.action, Sql):
        return False
    joined = joins(step.action.sql) and len(set(step.inputs) - tables(spec)) > 1
    if not (joined or has_windows(step.action.sql)):
        return False
    before = upstream(spec, step.name)
    return any(each.name in before and getattr(each.action, "time", None) is not None for each in spec.steps)


def windows_counting_late_rows(spec: PipelineSpec) -> frozenset[str]:
    """The `window` steps before which late rows are looked for: Spark counts those that it drops after it has added up
    the rows of a task, by window and key.

    They are told by the watermark in the checkpoint. Behind a join of streams Spark goes by an earlier one, and a
    checkpoint at a URL is not read; there its counts are what there is.
    """
    if "://" in spec.path(spec.checkpoints):
        return frozenset()
    joined = {step.name for step in spec.steps if isinstance(step.action, Join) and step.action.within_ms is not None}
    return frozenset(
        step.name
        for step in spec.steps
        if isinstance(step.action, Window)
        and (spec.audit is not None or step.letters_late_rows)
        and not joined & set(upstream(spec, step.name))
    )


def states_of(spec: PipelineSpec, sink: str) -> tuple[tuple[str, str], ...]:
    """The steps of a sink that keep a state, each with the name of Spark's operator, from the end of the plan."""
    steps, inputs, found = {step.name: step for step in spec.steps}, spec.inputs(), list[tuple[str, str]]()
    ways = [*inputs[sink]]
    while ways:
        name = ways.pop()
        ways += reversed(inputs[name])
        match steps[name].action if name in steps else None:
            case Deduplicate():
                found.append((name, "dedupeWithinWatermark"))
            case Window():
                found.append((name, "stateStoreSave"))
            case Join() as join if join.within_ms is not None:
                found.append((name, "symmetricHashJoin"))
            case Sql() as query if has_windows(query.sql) and _needs_watermark(spec, steps[name]):
                found.append((name, "stateStoreSave"))
            case State():
                found.append((name, "transformWithStateInPySparkExec"))
    return tuple(found)


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

    A source has some when its values are decoded, a step when an expectation of it says `dlq`, or it sets late rows
    aside.
    """
    lettered = [name for name, source in spec.sources.items() if source.format not in ("raw", "text")]
    lettered += [step.name for step in spec.steps if step.sets_aside]
    return {name: sink.name for sink in spec.sinks for name in owned(spec, sink.name) if name in lettered}
