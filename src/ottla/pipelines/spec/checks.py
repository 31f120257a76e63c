"""Checks the parts of a pipeline, alone and together."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ottla.pipelines.spec.convert import meant
from ottla.pipelines.spec.ddl import DdlError, columns
from ottla.pipelines.spec.draft import Draft, place
from ottla.pipelines.spec.event_time import AHEAD_YEARS_MAX
from ottla.pipelines.spec.functions import FunctionError, find_function
from ottla.pipelines.spec.lineage import above
from ottla.pipelines.spec.mistake import Position
from ottla.pipelines.spec.model import (
    DAY_MS,
    Deduplicate,
    Expect,
    Join,
    PipelineSpec,
    Python,
    Source,
    State,
    Step,
    TableSink,
    TopicSink,
    Window,
)
from ottla.pipelines.spec.quantity import parse_moment
from ottla.pipelines.spec.source_options import wrong_json_schema, wrong_read_option, wrong_write_option

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_BOOTSTRAP = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]]+):\d{1,5}(\s*,\s*(\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]]+):\d{1,5})*")
_PORT_MAX = 65_535
_TOPIC_HINT = "letters, digits, dot, dash and underscore, at most 249"
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_STARTS = ("earliest", "latest", "group")
_OWN_COLUMNS = ("_record", "_reason", "_error", "_verdict", "_parsed", "_corrupt", "_texts", "_alone", "_event_time")


def check(draft: Draft, whole: PipelineSpec | None, directory: Path) -> None:
    """Report all mistakes in the parts. `whole` has the keys above them, if they can be read."""
    for source in draft.sources.values():
        _check_source(draft, source)
    _check_streams(draft)
    _check_steps(draft, directory)
    _check_sinks(draft)
    _check_places(draft, whole)
    _check_letters(draft, whole)
    _check_tests(draft)
    _check_unused(draft)


def _check_source(draft: Draft, source: Source) -> None:
    name, what = source.name, f"source {source.name}"
    if source.pattern is not None and source.topics:
        draft.error(draft.place(name, "pattern"), f"{what} has topics and a pattern", "leave one of them out")
    elif source.pattern is None and not source.topics:
        draft.error(draft.place(name), f"{what} has no topics", 'topics = ["..."], or pattern = "..."')
    elif source.pattern is not None:
        try:
            re.compile(source.pattern)
        except (re.error, RecursionError, OverflowError) as error:
            draft.error(draft.place(name, "pattern"), f"pattern of {what} is not a regular expression: {error}")
    for index, topic in enumerate(source.topics):
        _check_topic(draft, topic, draft.place(name, "topics", index))
    _check_start(draft, source)
    _check_schema(draft, source)
    for option, value in source.options.items():
        wrong = wrong_read_option(option, value)
        if wrong:
            draft.error(draft.place(name, "options", option), f"options of {what}: {wrong}")


def _check_record(draft: Draft, source: Source, names: tuple[str, ...]) -> None:
    """What a source does with records whatever their values are."""
    name, what = source.name, f"source {source.name}"
    if source.timestamps is not None and source.format != "json":
        at = draft.place(name, "timestamps")
        message = f"{what} says what numbers count, and its format {source.format} has times of its own"
        draft.error(at, message, 'leave timestamps out, or format = "json"')
    if source.tombstones is not None and source.table:
        at = draft.place(name, "tombstones")
        draft.error(at, f"{what} is a table, in which a tombstone removes its key", "leave tombstones out")
    taken = {each.lower() for each in (*names, source.key or ("key" if source.table else ""))}
    if source.format in ("raw", "text"):
        taken |= {"key", "value", "topic", "partition", "offset", "timestamp", "timestamptype"}
    for column in source.metadata:
        at = draft.place(name, "metadata")
        if column.lower() in taken or column in _OWN_COLUMNS:
            draft.error(at, f"the column {column} of {what} is there already", "choose another name in metadata")
        elif not _COLUMN.fullmatch(column):
            draft.error(at, f"{column!r} of {what} cannot name a column", "use letters, digits and underscores")
        taken.add(column.lower())


def _check_topic(draft: Draft, topic: str, at: Position) -> None:
    if not _TOPIC.fullmatch(topic):
        draft.error(at, f"{topic!r} cannot name a topic", _TOPIC_HINT)


def _check_start(draft: Draft, source: Source) -> None:
    at = draft.place(source.name, "start")
    if source.table and source.start != "earliest":
        draft.error(at, f"source {source.name} is a table, which is read from its beginning", "leave start out")
    elif source.start == "group" and source.group is None:
        draft.error(at, f"source {source.name} starts at a group's offsets and names no group", 'group = "..."')
    elif source.start not in _STARTS:
        try:
            parse_moment(source.start)
        except ValueError as error:
            hint = meant(source.start, _STARTS)
            hint = hint if hint.startswith("did") else "earliest, latest, group, or a time like 2013-06-01T00:00:00Z"
            draft.error(at, f"start of source {source.name}: {error.args[0]}", hint)


def _check_schema(draft: Draft, source: Source) -> None:
    what, at = f"source {source.name}", draft.place(source.name, "schema")
    if source.json is not None and source.format != "json":
        where = draft.place(source.name, "json")
        draft.error(where, f"{what} says how JSON is read, and has format {source.format}", 'format = "json"')
    names: tuple[str, ...] = ()
    if source.format in ("raw", "text") and source.schema is not None:
        draft.error(at, f"{what} has a schema, which format {source.format} does not use", 'format = "json"')
    elif source.format == "json" and source.schema is None:
        draft.error(at, f"{what} has format json and no schema", 'schema = "flight string, delay_min int"')
    elif source.format in ("avro", "protobuf"):
        _check_value_schema(draft, source, at)
    elif source.format == "json" and source.schema is not None:
        names = _check_ddl(draft, source.schema, f"schema of {what}", at)
        refused = wrong_json_schema(source.schema) if names and source.is_strict_json else ""
        if refused:
            draft.error(at, f"schema of {what}: {refused}", 'json = { mode = "lenient" } reads it as Spark does')
        for name in names:
            if name in _OWN_COLUMNS:
                draft.error(at, f"the column {name} of {what} is one that pipelines add themselves", "leave it out")
        if source.key is not None and source.key.lower() in map(str.lower, names):
            at = draft.place(source.name, "key")
            draft.error(at, f"the column {source.key} of {what} is in its schema, too", "the key is another column")
    _check_record(draft, source, names)


def _check_value_schema(draft: Draft, source: Source, at: Position) -> None:
    what, options = f"source {source.name}", {name.lower() for name in source.options}
    if source.format == "avro":
        if source.schema is None and "schemaregistry" not in options:
            hint = 'schema = "order.avsc", or options = { schemaRegistry = "http://localhost:8081" }'
            draft.error(at, f"{what} has format avro and no schema", hint)
    elif source.schema is None:
        hint = "a file that protoc --include_imports --descriptor_set_out=FILE made"
        draft.error(at, f"{what} has format protobuf and no schema", hint)
    elif "valuemessage" not in options:
        hint = 'options = { valueMessage = "shop.Order" }'
        draft.error(draft.place(source.name, "options"), f"{what} does not say which message its values are", hint)


def _check_ddl(draft: Draft, ddl: str, what: str, at: Position) -> tuple[str, ...]:
    try:
        return columns(ddl)
    except DdlError as error:
        draft.error(at, f"{what}: {error.message}", error.hint)
        return ()


def _tables(draft: Draft) -> frozenset[str]:
    found = {name for name, source in draft.sources.items() if source.table}
    for step in draft.steps:
        if step.inputs and all(name in found for name in step.inputs):
            found.add(step.name)
    return frozenset(found)


def _check_streams(draft: Draft) -> None:
    """What is read for ever, and what is looked up."""
    tables = _tables(draft)
    if draft.sources and len(draft.sources) == len(draft.source_names) and set(draft.sources) <= tables:
        at = draft.place(next(iter(draft.sources)), "table")
        draft.error(at, "every source is a table: nothing would come in", "leave table out of one of them")
        return
    for sink in draft.sinks:
        if sink.input in tables:
            at = draft.place(sink.name, "input")
            draft.error(
                at, f"sink {sink.name} reads {sink.input}, which is a table, not a stream", "join a stream with it"
            )
    for step in draft.steps:
        if isinstance(step.action, Join):
            _check_join(draft, step.name, step.input, step.action, tables)
        if step.letters_late_rows:
            _check_late_rows(draft, step)
        if isinstance(step.action, State) and step.action.time is not None:
            _check_ahead(draft, step)


def _check_ahead(draft: Draft, step: Step) -> None:
    """A processor is given shifted times, and those of Python end in the year 9999."""
    most = AHEAD_YEARS_MAX * 365 * DAY_MS
    for source in draft.sources.values():
        if not source.table and source.ahead_ms > most:
            message = f"ahead of source {source.name} is over {AHEAD_YEARS_MAX} years, and step {step.name} has a time"
            draft.error(draft.place(source.name, "ahead"), message, f'at most "{AHEAD_YEARS_MAX * 365} days"')


def _check_late_rows(draft: Draft, step: Step) -> None:
    """A join of streams gives rows behind the watermark by itself: those without a match, once none can come."""
    known: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(draft.source_names, ()),
        **{each.name: each.inputs for each in draft.steps},
    }
    behind = above(known, step.name)
    for each in draft.steps:
        if each.name in behind and isinstance(each.action, Join) and each.action.within_ms is not None:
            message = (
                f"step {step.name} cannot set late rows aside: behind the join {each.name} rows are late by themselves"
            )
            draft.error(draft.place(step.name), message, f'say late_rows = "dead-letter" in {each.name}')
    if isinstance(step.action, Join) and step.action.within_ms is None:
        message = f"late_rows in step {step.name} has no effect: {step.action.other} is a table"
        draft.error(draft.place(step.name, "join", "late_rows"), message, "leave it out")


def _check_join(draft: Draft, name: str, input_name: str, join: Join, tables: frozenset[str]) -> None:
    if join.other == input_name:
        at = draft.place(name, "join", "with")
        draft.error(at, f"step {name} joins {input_name} with itself", "give one side a step of its own, to name it")
    elif input_name in tables and join.other not in tables:
        draft.error(draft.place(name, "input"), f"step {name} joins a table with a stream", "put the stream first")
    elif join.other in tables:
        for key, value in (("within", join.within_ms), ("time", join.time), ("with_time", join.with_time)):
            if value is not None:
                message = f"{key} in step {name} has no effect: {join.other} is a table"
                draft.error(draft.place(name, "join", key), message, "leave it out")
        if join.how in ("right", "full"):
            message = (
                f"step {name}: a {join.how} join with a table is not possible: no row is ever known to have no match"
            )
            draft.error(draft.place(name, "join", "how"), message, "inner or left")
    else:
        wanted = {"within": join.within_ms, "time": join.time, "with_time": join.with_time}
        missing = [key for key, value in wanted.items() if value is None]
        if missing:
            message = f"step {name} joins two streams and does not say {' and '.join(missing)}"
            hint = 'within = "1 hour", time = a column of this side, with_time = one of the other; or table = true'
            draft.error(draft.place(name, "join"), message, hint)


def _check_steps(draft: Draft, directory: Path) -> None:
    for step in draft.steps:
        what = f"step {step.name}"
        match step.action:
            case Expect() as action:
                _check_expectations(draft, step.name, action)
            case Window() as action:
                if not action.aggregate:
                    draft.error(draft.place(step.name, "window", "aggregate"), f"{what} has no aggregates", "name one")
                if action.slide_ms is not None and action.slide_ms > action.every_ms:
                    at = draft.place(step.name, "window", "slide")
                    draft.error(
                        at,
                        f"{what}: slide is longer than every, so rows between two windows would be lost",
                        "slide <= every",
                    )
                if action.every_ms == 0 or action.slide_ms == 0:
                    draft.error(draft.place(step.name, "window", "every"), f"{what}: a window must have a length")
            case Deduplicate() if step.action.within_ms == 0:
                at = draft.place(step.name, "deduplicate", "within")
                draft.error(at, f"{what}: within must be longer than 0 seconds", 'within = "1 day"')
            case Python() as action:
                _check_function(draft, step.name, action.python, draft.place(step.name, "python"), directory)
            case State() as action:
                _check_function(draft, step.name, action.python, draft.place(step.name, "state", "python"), directory)
                _check_ddl(draft, action.schema, f"schema of {what}", draft.place(step.name, "state", "schema"))
            case _:
                pass
        by = getattr(step.action, "by", None)
        if by == () and not isinstance(step.action, Window):
            kind = type(step.action).__name__.lower()
            draft.error(draft.place(step.name, kind, "by"), f"by of {what} is empty", "name a column")


def _check_expectations(draft: Draft, name: str, action: Expect) -> None:
    if not action.expect:
        at = draft.place(name, "expect")
        draft.error(at, f"step {name} expects nothing", '{ name = "...", check = "an SQL condition" }')
    seen: set[str] = set()
    for index, expectation in enumerate(action.expect):
        if expectation.name in seen:
            at = draft.place(name, "expect", index, "name")
            draft.error(
                at, f"step {name} has two expectations named {expectation.name}", "their counts go by their names"
            )
        seen.add(expectation.name)


def _check_function(draft: Draft, step: str, target: str, at: Position, directory: Path) -> None:
    if step in draft.functions:
        return
    try:
        find_function(target, directory)
    except FunctionError as error:
        draft.error(at, error.message, error.hint)


def _check_sinks(draft: Draft) -> None:
    if not draft.sink_names and "sinks" not in draft.root.value:
        draft.error(
            draft.root.at, "the pipeline has no sinks", "it must have a [[sinks]] with a topic, parquet or delta"
        )
    elif not draft.sink_names and draft.root.value["sinks"].value == []:
        draft.error(draft.root.value["sinks"].at, "the pipeline has no sinks", "add one with a topic, parquet or delta")
    ids: dict[str, str] = {}
    for sink in draft.sinks:
        if isinstance(sink, TopicSink):
            _check_topic(draft, sink.topic, draft.place(sink.name, "topic"))
            other = ids.setdefault(sink.transactional_id, sink.name)
            if other != sink.name:
                at = draft.place(sink.name, "transactional_id")
                message = f"sinks {other} and {sink.name} have the transactional id {sink.transactional_id}"
                draft.error(at, message, "they would fence each other off")
            if sink.tasks > 1 and sink.mode != "exactly-once":
                at = draft.place(sink.name, "tasks")
                draft.error(at, f"sink {sink.name} writes at least once, with all tasks there are", "leave tasks out")
            for option, value in sink.options.items():
                wrong = wrong_write_option(option, value)
                if wrong:
                    at = draft.place(sink.name, "options", option)
                    draft.error(at, f"options of sink {sink.name}: {wrong}")


def _written(draft: Draft, whole: PipelineSpec | None) -> Iterator[tuple[str, str, str, Position]]:
    """Every place that is written: what kind, which, by whom, and where that is said."""
    for sink in draft.sinks:
        if isinstance(sink, TableSink):
            yield "table", str(Path(sink.path)), f"sink {sink.name}", draft.place(sink.name, sink.format)
        else:
            yield "topic", sink.topic, f"sink {sink.name}", draft.place(sink.name, "topic")
    for key in ("dead_letters", "audit"):
        part = getattr(whole, key, None)
        if part is not None:
            yield "topic", part.topic, key, place(draft.root, key, "topic")


def _check_places(draft: Draft, whole: PipelineSpec | None) -> None:
    """No place is written twice, and none is read by what writes it."""
    writers: dict[tuple[str, str], str] = {}
    inputs = {
        **{step.name: step.inputs for step in draft.steps},
        **{sink.name: (sink.input,) for sink in draft.sinks},
    }
    for kind, where, writer, at in _written(draft, whole):
        other = writers.setdefault((kind, where), writer)
        if other != writer:
            draft.error(
                at, f"{other} and {writer} both write to the {kind} {where}", "make them one, or give each its own"
            )
        if kind == "topic" and not writer.startswith("sink "):
            _check_topic(draft, where, at)
        for source in _sources_of(draft, inputs, writer):
            if kind == "topic" and _reads(source, where):
                reader = "it" if writer.startswith("sink ") else f"source {source.name}"
                draft.error(
                    at, f"{writer} writes to the topic {where}, which {reader} reads", "it would feed itself for ever"
                )
    if whole is not None and whole.audit is not None and whole.audit.window_ms == 0:
        draft.error(place(draft.root, "audit", "window"), "window of audit: a window must have a length")
    if whole is not None and whole.bootstrap is not None and not _names_brokers(whole.bootstrap):
        hint = "host:port,host:port, with ports up to 65535"
        draft.error(place(draft.root, "bootstrap"), f"{whole.bootstrap!r} names no broker", hint)


def _names_brokers(bootstrap: str) -> bool:
    if not _BOOTSTRAP.fullmatch(bootstrap.strip()):
        return False
    return all(0 < int(each.rpartition(":")[2]) <= _PORT_MAX for each in bootstrap.split(","))


def _sources_of(draft: Draft, inputs: Mapping[str, tuple[str, ...]], writer: str) -> list[Source]:
    """The sources whose records make the writer write: those a sink reads through, those of which something is refused
    for dead letters, and all streams for the audit.
    """
    if writer == "audit":
        return [source for source in draft.sources.values() if not source.table]
    if writer == "dead_letters":
        ends = [name for name, source in draft.sources.items() if source.format not in ("raw", "text")]
        ends += [step.name for step in draft.steps if step.sets_aside]
    else:
        ends = [writer.removeprefix("sink ")]
    known: dict[str, tuple[str, ...]] = {**dict.fromkeys(draft.source_names, ()), **inputs}
    names = {name for end in ends for name in (end, *above(known, end))}
    refused = writer == "dead_letters"
    return [source for name, source in draft.sources.items() if name in names and not (refused and source.table)]


def _reads(source: Source, topic: str) -> bool:
    if source.pattern is None:
        return topic in source.topics
    try:
        return re.fullmatch(source.pattern, topic) is not None
    except (re.error, RecursionError, OverflowError):
        return False


def _check_letters(draft: Draft, whole: PipelineSpec | None) -> None:
    if "dead_letters" in draft.root.value or whole is None:
        return
    for step in draft.steps:
        if isinstance(step.action, Expect):
            for index, expectation in enumerate(step.action.expect):
                if expectation.on_fail == "dlq":
                    at = draft.place(step.name, "expect", index, "on_fail")
                    message = f"step {step.name} sends rows to the dead letters, and the pipeline has no dead_letters"
                    draft.error(at, message, 'add [dead_letters] with topic = "..."')
        elif step.sets_aside:
            at = draft.place(step.name)
            message = f"step {step.name} sets late rows aside, and the pipeline does not say where"
            draft.error(at, message, 'add [dead_letters] with topic = "..."')


def _check_tests(draft: Draft) -> None:
    seen: set[str] = set()
    for test, node in draft.tests:
        if test.name in seen:
            draft.error(place(node, "name"), f"two tests are named {test.name}")
        seen.add(test.name)
        for name in test.given:
            if name not in draft.source_names:
                at = node.value["given"].keys.get(name, node.at)
                draft.error(
                    at, f"test {test.name} gives rows to {name}, which is not a source", meant(name, draft.source_names)
                )
        known = (*draft.step_names, *draft.sink_names)
        for name in test.expect:
            if name not in known:
                at = node.value["expect"].keys.get(name, node.at)
                message = f"test {test.name} expects rows of {name}, which is neither a step nor a sink"
                draft.error(at, message, meant(name, known))
        if not test.expect and test.dead_letters is None:
            draft.error(node.at, f"test {test.name} expects nothing", "expect.STEP = [ { ... } ], or dead_letters = []")


def _check_unused(draft: Draft) -> None:
    """Warn of what nothing comes of; only when all that reads was understood."""
    written = [draft.root.value[key].value for key in ("steps", "sinks") if key in draft.root.value]
    if not draft.sinks or any(not isinstance(each, list) for each in written):
        return
    if len(draft.steps) + len(draft.sinks) < sum(map(len, written)):
        return
    for what, names in (("source", draft.source_names), ("step", draft.step_names)):
        for name in names:
            if not any(True for _ in draft.readers(name)):
                draft.convert.warn(draft.place(name), f"nothing reads {what} {name}", "a sink or a step would")
