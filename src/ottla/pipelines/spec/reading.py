"""Reads a pipeline file: the document, the parts, then checks across parts."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ottla.pipelines.spec import checks
from ottla.pipelines.spec.convert import UNUSABLE, Converter, meant
from ottla.pipelines.spec.document import DocumentError, Node
from ottla.pipelines.spec.draft import Draft
from ottla.pipelines.spec.mistake import Mistake, Position, SpecErrors
from ottla.pipelines.spec.model import (
    Action,
    Deduplicate,
    Expect,
    Join,
    PipelineSpec,
    Python,
    Source,
    Sql,
    State,
    Step,
    TableSink,
    TestCase,
    TopicSink,
    Window,
)
from ottla.pipelines.spec.sql_names import relations
from ottla.pipelines.spec.toml_document import read_toml
from ottla.pipelines.spec.yaml_document import read_yaml

FILE_BYTES_MAX = 1024 * 1024
"""The maximum size of a file: ten times that of one with 1,000 steps."""
PARTS_MAX = 1000
"""The maximum number of sources, steps, sinks and tests together."""

_FORMATS = {".toml": read_toml, ".yaml": read_yaml, ".yml": read_yaml}

_PIPELINE_NAME = re.compile(r"[a-z0-9._-]{1,100}")
_VIEW_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_SINK_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")

_ACTIONS: dict[str, type[Action]] = {
    "sql": Sql,
    "expect": Expect,
    "deduplicate": Deduplicate,
    "window": Window,
    "join": Join,
    "python": Python,
    "state": State,
}
_IN_THE_STEP = (Sql, Expect, Python)
"""Actions that are one value of the step; the others are a table of several."""
_SINKS: dict[str, type[TopicSink] | type[TableSink]] = {"topic": TopicSink, "parquet": TableSink, "delta": TableSink}
_LISTS = ("steps", "sinks", "tests")


def read(path: Path | str) -> PipelineSpec:
    """The pipeline of a TOML or YAML file. Raises SpecErrors with all mistakes, OSError if it cannot be read."""
    spec, mistakes = check(path)
    if spec is None:
        raise SpecErrors(mistakes)
    return spec


def check(path: Path | str) -> tuple[PipelineSpec | None, list[Mistake]]:
    """The pipeline of a file, None if it has errors, and all mistakes and warnings, sorted.

    Raises OSError when the file cannot be read.
    """
    path = Path(path)
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    return check_text(content, file=str(path), directory=path.parent)


def check_text(content: bytes, *, file: str, directory: Path) -> tuple[PipelineSpec | None, list[Mistake]]:
    """As `check`, for the content of a file; the extension of its name sets the format."""
    convert = Converter(file)
    try:
        root = _document(content, Path(file).suffix.lower())
    except DocumentError as error:
        convert.error(error.at, error.message, error.hint)
        return None, convert.mistakes
    spec = assemble(root, convert, directory)
    return spec, sorted(set(convert.mistakes))


def _document(content: bytes, suffix: str) -> Node:
    if suffix not in _FORMATS:
        raise DocumentError(f"a pipeline file ends in .toml, .yaml or .yml, not {suffix or 'nothing'}", Position())
    if len(content) > FILE_BYTES_MAX:
        raise DocumentError(f"the file is larger than {FILE_BYTES_MAX} bytes", Position(), "rows belong into topics")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8", "replace")
        at = Position(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
        raise DocumentError("the file is not UTF-8", at, "save it as UTF-8") from None
    root = _FORMATS[suffix](text)
    if not isinstance(root.value, dict):
        raise DocumentError(f"a pipeline file is a table, not {root.kind()}", root.at, "it begins with name = ...")
    return root


def assemble(
    root: Node, convert: Converter, directory: Path, *, functions: Mapping[str, Callable[..., Any]] | None = None
) -> PipelineSpec | None:
    """The pipeline of a document; None if the converter has errors.

    `functions` are those of steps, by the step's name, which need not be looked for.
    """
    draft = Draft(convert=convert, root=root, functions=dict(functions or {}))
    whole = convert.struct(
        PipelineSpec,
        Node({key: node for key, node in root.value.items() if key not in ("sources", *_LISTS)}, root.at, root.keys),
        "the pipeline",
        given={"sources": {}, "steps": (), "sinks": (), "tests": (), "directory": directory, "places": {}},
        beside=("sources", *_LISTS),
    )
    name = root.value.get("name")
    draft.name = name.value if name is not None and isinstance(name.value, str) else ""
    if name is not None and draft.name.strip() and not _PIPELINE_NAME.fullmatch(draft.name):
        convert.error(name.at, f"{draft.name!r} cannot name a pipeline", "use a to z, 0 to 9, dot, dash and underscore")
    lists = {key: _list(draft, key) for key in _LISTS}
    sources = _sources_table(draft)
    if sum(map(len, (sources, *lists.values()))) > PARTS_MAX:
        convert.error(root.at, f"the file has more than {PARTS_MAX} sources, steps, sinks and tests")
        return None
    _name_parts(draft, sources, lists["steps"], lists["sinks"])
    for key, node in sources.items():
        source = convert.struct(Source, node, f"source {key}", given={"name": key})
        if source is not UNUSABLE:
            draft.sources[key] = source
    for index, node in enumerate(lists["steps"]):
        _read_step(draft, index, node)
    for node in lists["sinks"]:
        _read_sink(draft, node)
    for node in lists["tests"]:
        test = convert.struct(TestCase, node, "a test")
        if test is not UNUSABLE:
            draft.tests.append((test, node))
    checks.check(draft, whole if whole is not UNUSABLE else None, directory)
    if whole is UNUSABLE or any(each.severity == "error" for each in convert.mistakes):
        return None
    assert isinstance(whole, PipelineSpec)
    return msgspec.structs.replace(
        whole,
        sources=draft.sources,
        steps=tuple(_with_function(draft, step) for step in draft.steps),
        sinks=tuple(draft.sinks),
        tests=tuple(test for test, _ in draft.tests),
        places=_places(draft),
    )


def _places(draft: Draft) -> dict[str, str]:
    """Where each step says what it does, and where each sink begins."""
    made = {sink.name: draft.place(sink.name) for sink in draft.sinks}
    for step in draft.steps:
        made[step.name] = next(draft.place(step.name, key) for key in _ACTIONS if key in draft.nodes[step.name].value)
    return {name: f"{draft.convert.file}:{at.line}" for name, at in made.items()}


def _with_function(draft: Draft, step: Step) -> Step:
    function = draft.functions.get(step.name)
    match step.action:
        case Python() if function is not None:
            return msgspec.structs.replace(step, action=msgspec.structs.replace(step.action, function=function))
        case State() if function is not None:
            return msgspec.structs.replace(step, action=msgspec.structs.replace(step.action, processor=function))
        case _:
            return step


def _list(draft: Draft, key: str) -> list[Node]:
    node = draft.root.value.get(key)
    if node is None:
        return []
    if not isinstance(node.value, list):
        draft.error(node.at, f"{key} must be a list, not {node.kind()}", f"begin each with [[{key}]]")
        return []
    return list(node.value)


def _sources_table(draft: Draft) -> dict[str, Node]:
    node = draft.root.value.get("sources")
    if node is None:
        draft.error(draft.root.at, "the pipeline has no sources", "it must have a [sources.NAME] with topics")
        return {}
    if not isinstance(node.value, dict):
        draft.error(node.at, f"sources must be a table, not {node.kind()}", "begin each with [sources.NAME]")
        return {}
    if not node.value:
        draft.error(node.at, "the pipeline has no sources", "it must have a [sources.NAME] with topics")
    return dict(node.value)


def _name_parts(draft: Draft, sources: dict[str, Node], steps: list[Node], sinks: list[Node]) -> None:
    """Take up the names of all parts first, so that what reads a part that is wrong is not wrong for it."""
    for name, node in sources.items():
        _take_name(draft, name, node, draft.root.value["sources"].keys[name], _VIEW_NAME)
    draft.source_names = tuple(draft.nodes)
    for what, nodes, pattern in (("step", steps, _VIEW_NAME), ("sink", sinks, _SINK_NAME)):
        taken = []
        for index, node in enumerate(nodes):
            said = node.value.get("name") if isinstance(node.value, dict) else None
            if not isinstance(node.value, dict):
                draft.error(node.at, f"{what} {index + 1} must be a table, not {node.kind()}")
            elif said is None:
                draft.error(node.at, f"{what} {index + 1} has no name", "others read it by its name")
            elif not isinstance(said.value, str):
                draft.error(said.at, f"the name of {what} {index + 1} must be a string, not {said.kind()}")
            elif _take_name(draft, said.value, node, said.at, pattern):
                taken.append(said.value)
        if what == "step":
            draft.step_names = tuple(taken)
        else:
            draft.sink_names = tuple(taken)


def _take_name(draft: Draft, name: str, node: Node, at: Position, pattern: re.Pattern[str]) -> bool:
    if not pattern.fullmatch(name):
        use = "letters, digits and underscores" if pattern is _VIEW_NAME else "letters, digits, dot, dash, underscore"
        draft.error(at, f"{name!r} cannot be a name here", f"use {use}")
    other = next((each for each in draft.nodes if each.lower() == name.lower()), None)
    if other is not None:
        first = draft.nodes[other].at.line
        draft.error(
            at, f"the name {name} is taken", f"sources, steps and sinks share their names; first in line {first}"
        )
        return False
    draft.nodes[name] = node
    return True


def _owned(draft: Draft, node: Node) -> str | None:
    """The name of a step or a sink, when this table was the first to take it."""
    name = node.value.get("name") if isinstance(node.value, dict) else None
    if name is None or not isinstance(name.value, str) or draft.nodes.get(name.value) is not node:
        return None
    return name.value


def _read_step(draft: Draft, index: int, node: Node) -> None:
    name = _owned(draft, node)
    if name is None:
        return
    what = f"step {name}"
    said = [key for key in _ACTIONS if key in node.value]
    draft.convert.unknown_keys(node, ["name", "input", *_ACTIONS], what)
    if len(said) != 1:
        message = f"{what} says {' and '.join(said)}" if said else f"{what} does nothing"
        hint = "make it two steps" if said else f"it must say one of {', '.join(_ACTIONS)}"
        draft.error(node.at, message, hint)
        return
    (key,) = said
    kind = _ACTIONS[key]
    if kind in _IN_THE_STEP:
        action = draft.convert.struct(kind, Node({key: node.value[key]}, node.at, node.keys), what)
    else:
        action = draft.convert.struct(kind, node.value[key], f"{key} of {what}")
    inputs = _inputs(draft, index, node, name, action)
    if action is not UNUSABLE and inputs:
        draft.steps.append(Step(name=name, inputs=inputs, action=action))


def _inputs(draft: Draft, index: int, node: Node, name: str, action: Any) -> tuple[str, ...]:
    earlier = (*draft.source_names, *draft.step_names[: draft.step_names.index(name)])
    written = _written_inputs(draft, node, f"step {name}")
    if written is UNUSABLE:
        return ()
    named: list[tuple[str, Position]] = list(written)
    if isinstance(action, Sql):
        known = {each.lower(): each for each in draft.names()}
        at = node.value["sql"].at
        read = [known.get(each.lower(), each) for each in relations(action.sql) if "." not in each]
        for each, place in written:
            if read and each not in read:
                draft.convert.warn(place, f"the query of step {name} does not read {each}", "leave input out")
        named = [(each, at) for each in read] or named
    elif not named:
        before = _default_input(draft, index, f"step {name}", node.at)
        named = [(before, node.at)] if before else []
    if isinstance(action, Join):
        named = [*named[:1], (action.other, node.value["join"].value["with"].at)]
    if isinstance(action, Sql) and not named:
        draft.error(
            node.value["sql"].at, f"the query of step {name} reads no source and no step", "name one after FROM"
        )
    good = [_readable(draft, name, each, at, earlier) for each, at in named]
    return tuple(dict.fromkeys(each for each, _ in named)) if good and all(good) else ()


def _written_inputs(draft: Draft, node: Node, what: str) -> Any:
    """What `input` says: a name, or of a Python step a list of names."""
    given = node.value.get("input")
    if given is None:
        return []
    if isinstance(given.value, list) and "python" in node.value:
        names = draft.convert.value(tuple[str, ...], given, f"input of {what}")
        if names == ():
            return draft.convert.error(given.at, f"input of {what} is empty")
        return UNUSABLE if names is UNUSABLE else [(each.value, each.at) for each in given.value]
    name = draft.convert.value(str, given, f"input of {what}")
    return UNUSABLE if name is UNUSABLE else [(name, given.at)]


def _default_input(draft: Draft, index: int, what: str, at: Position) -> str | None:
    """The step before, else the only stream."""
    steps = draft.root.value["steps"].value if "steps" in draft.root.value else []
    if index > 0:
        return _owned(draft, steps[index - 1]) if isinstance(steps, list) else None
    tables = [name for name in draft.source_names if _is_table(draft.nodes[name])]
    streams = [name for name in draft.source_names if name not in tables]
    if len(streams) == 1:
        return streams[0]
    if streams:
        draft.error(at, f"{what} does not say what it reads", f"input = one of {', '.join(streams)}")
    return None


def _is_table(node: Node) -> bool:
    said = node.value.get("table") if isinstance(node.value, dict) else None
    return said is not None and said.value is True


def _readable(draft: Draft, reader: str, name: str, at: Position, earlier: tuple[str, ...]) -> bool:
    """Whether a step may read a name; tells why not."""
    if name in earlier:
        return True
    if name == reader:
        draft.error(at, f"step {reader} reads itself", meant(name, earlier) or "it can read what is defined above it")
    elif name in draft.step_names:
        circle = _circle(draft, reader, name)
        if circle:
            draft.error(at, f"steps read each other in a circle: {' -> '.join(circle)}", "one must read something else")
        else:
            draft.error(at, f"step {reader} reads {name}, which is defined below it", f"move {name} above {reader}")
    elif name in draft.sink_names:
        draft.error(at, f"step {reader} reads {name}, which is a sink", "read what the sink reads")
    else:
        draft.error(at, f"step {reader} reads {name}, which is neither a source nor a step", meant(name, earlier))
    return False


def _circle(draft: Draft, reader: str, name: str) -> list[str]:
    """The way from a step below back to the step that reads it, or nothing."""
    ways = [[name]]
    seen = {name}
    while ways:
        way = ways.pop()
        for each in _mentions(draft.nodes[way[-1]]):
            if each == reader:
                return [reader, *way, reader]
            if each in draft.step_names and each not in seen:
                seen.add(each)
                ways.append([*way, each])
    return []


def _mentions(node: Node) -> list[str]:
    """What a step says it reads, read no further than a circle needs."""
    said = [node.value[key].value for key in ("input",) if key in node.value]
    if "sql" in node.value and isinstance(node.value["sql"].value, str):
        said = list(relations(node.value["sql"].value))
    join = node.value.get("join")
    if join is not None and isinstance(join.value, dict) and "with" in join.value:
        said.append(join.value["with"].value)
    return [each for each in said if isinstance(each, str)]


def _read_sink(draft: Draft, node: Node) -> None:
    name = _owned(draft, node)
    if name is None:
        return
    what = f"sink {name}"
    said = [key for key in _SINKS if key in node.value]
    if len(said) != 1:
        message = f"{what} writes to {' and '.join(said)}" if said else f"{what} writes nowhere"
        draft.error(node.at, message, "make it two sinks" if said else f"it must say one of {', '.join(_SINKS)}")
        return
    (key,) = said
    kind = _SINKS[key]
    source = _sink_input(draft, node, what)
    values = {"name": name, "input": source or ""}
    rest = dict(node.value)
    for read in ("name", "input"):
        rest.pop(read, None)
    if kind is TableSink:
        values |= {"format": key, "path": draft.convert.value(str, rest.pop(key), f"{key} of {what}")}
    elif "transactional_id" not in rest:
        values["transactional_id"] = f"{draft.name}.{name}"
    foreign = _foreign_keys(kind)
    for other in [other for other in rest if other in foreign]:
        draft.error(node.keys[other], f"{what} writes to {_ARTICLE[kind]}, which has no {other}", foreign[other])
        del rest[other]
    sink = draft.convert.struct(kind, Node(rest, node.at, node.keys), what, given=values)
    if sink is not UNUSABLE and source:
        draft.sinks.append(sink)


_ARTICLE = {TopicSink: "a topic", TableSink: "a table"}


def _foreign_keys(kind: type) -> dict[str, str]:
    """The keys that only the other kind of sink takes, and a hint for each."""
    other = TableSink if kind is TopicSink else TopicSink
    own = {each.encode_name for each in msgspec.structs.fields(kind)}
    keys = {each.encode_name for each in msgspec.structs.fields(other)} - own - {"format", "path"}
    hints = {"compact": "the broker compacts topics: cleanup.policy=compact", "partition_by": "use key"}
    return {key: hints.get(key, f"only {_ARTICLE[other]} does") for key in keys}


def _sink_input(draft: Draft, node: Node, what: str) -> str | None:
    given = node.value.get("input")
    if given is None:
        if draft.step_names:
            return draft.step_names[-1]
        return _default_input(draft, 0, what, node.at)
    name = draft.convert.value(str, given, f"input of {what}")
    if name is UNUSABLE:
        return None
    if name not in draft.names():
        which = "a sink" if name in draft.sink_names else "neither a source nor a step"
        draft.error(given.at, f"{what} reads {name}, which is {which}", meant(name, draft.names()))
        return None
    return str(name)
