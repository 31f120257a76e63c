"""The reason of a query's failure, in one line, and whether a retry can help."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ottla.pipelines.compiler.expectations import FAILED
from ottla.pipelines.compiler.sink_rows import REFUSED
from ottla.pipelines.compiler.sources import UNDECODED

LINE_CHARS_MAX: Final = 600
"""The maximum number of characters of a reason, which may quote a large row."""


class Verdict(Enum):
    """What to do with a failed query."""

    HOPELESS = auto()
    """End the query: it would fail again until the file, a row or another driver changes."""
    UNREACHABLE = auto()
    """Retry without limit: the brokers, or a schema registry, cannot be reached."""
    ROW = auto()
    """An expression failed for a row: find the record, make it a dead letter, and restart at once."""
    UNKNOWN = auto()
    """Retry a few times."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason of a failure, and what to do."""

    reason: str
    verdict: Verdict


_HOPELESS: Final = (
    FAILED,
    REFUSED,
    UNDECODED,
    "OptionError",
    "DataLossError",
    "another driver",
    "fenced",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "SchemaMismatch",
    "AnalysisException",
    "StepError",
    "another query (",
    "the rows do not fit the table",
    "partitioned by",
    "a table needs a directory",
    "a directory that is empty or not there yet",
    "the table has rows of another query",
    "another query",
    "TopicNotFoundError",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH",
    "does not exist on the broker",
    "AUTHORIZATION_FAILED",
    "uthorization failed",
)
_AGAIN: Final = (
    "written again when the query is started again",
    "came after its batch had been closed",
    "its transaction timed out",
    "or the batch took longer",
)
"""Of an aborted transaction: an executor died in it, or it took too long. Where another driver has in truth taken over,
the next attempt says so."""
_UNREACHABLE: Final = (
    "BrokerUnreachable",
    "ConnectionLostError",
    "RequestTimedOutError",
    "ConnectionRefused",
    "Connection refused",
    "no broker could be reached",
    "cannot reach",
    "cannot be asked:",
    "ConnectionReset",
    "REQUEST_TIMED_OUT",
    "NOT_ENOUGH_REPLICAS",
    "LEADER_NOT_AVAILABLE",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
)
_OF_VALUES = re.compile(r"SQLSTATE: (?:22\w{3}|23505|39000|P0001)\b")
"""What the values of a row cause, by the classes of the SQL standard: data exceptions, two equal keys of a map,
functions of users, `raise_error` and `assert_true`."""
_RAISED = re.compile(r"^(?:[\w$.]+\.)?(\w*(?:Error|Exception|Exit|Interrupt))(?:: (.*))?$")
_USER_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*)")
_CONDITION = re.compile(r"^(?:[\w$.]+(?:Error|Exception): )?\[([A-Z0-9_.]+)\] (.*)")
_GENERIC: Final = frozenset(
    {
        *("StreamingQueryException", "SparkException", "PythonException", "Py4JJavaError", "Py4JError"),
        *("PySparkRuntimeError", "SparkRuntimeException", "AnalysisException", "RuntimeException"),
    }
)
"""Exceptions that carry another one: what they say of themselves helps nobody."""
_OF_PYTHON = re.compile(r"Failed when Python .*?: (?:\w+\.)*(\w+: .*)")
"""Before what a process of Spark's Python raised, where that is told without its traceback."""
_PLAN = re.compile(
    r"^=== Streaming Query ===.*?(?=^(?:\tat |JVM stacktrace:|Caused by: )|\Z)", re.DOTALL | re.MULTILINE
)
"""What Spark says of a query that failed: its plan has the words of checks that did not fail, and those of the file."""
_FRAME = re.compile(r"^\s*(at |\.\.\. \d+ more|File \"|Traceback )")


def failure_of(text: str) -> Failure:
    """Classify the text of an exception, with tracebacks of the JVM and of Python.

    >>> failure_of("ottla.client.errors.BrokerUnreachableError: no answer")
    Failure(reason='BrokerUnreachableError: no answer', verdict=<Verdict.UNREACHABLE: 2>)
    """
    text = _PLAN.sub("", text)
    reason = reason_of(text)
    is_judged = any(sign in reason for sign in (FAILED, REFUSED, UNDECODED))
    if _OF_VALUES.search(text) and not is_judged:
        # Before all others: the message quotes the value, whatever words that has.
        return Failure(reason, Verdict.ROW)
    if any(sign in text for sign in _UNREACHABLE) and not is_judged:
        return Failure(reason, Verdict.UNREACHABLE)
    if any(sign in text for sign in _HOPELESS) and not any(sign in text for sign in _AGAIN):
        return Failure(reason, Verdict.HOPELESS)
    return Failure(reason, Verdict.UNKNOWN)


def reason_of(text: str) -> str:
    """The line with the reason: of a row's check, of the innermost exception, or the first line."""
    raised = _USER_RAISED.search(text)
    if raised is not None:
        return _short(raised[1])
    found = ""
    for line in text.splitlines():
        stripped = line.strip().removeprefix("Caused by: ")
        match = None if _FRAME.match(line) else _RAISED.match(stripped)
        if match is not None and match[1] not in _GENERIC and match[2]:
            # A traceback ends with its exception, and the innermost one stands first.
            found = found or f"{match[1]}: {match[2]}"
    if found:
        return _short(found)
    conditions = [
        match[2] for match in map(_CONDITION.match, text.splitlines()) if match and match[1] != "STREAM_FAILED"
    ]
    if conditions:
        of_python = _OF_PYTHON.match(conditions[0])
        return _short(conditions[0] if of_python is None else of_python[1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _short(lines[0]) if lines else "no reason given"


def _short(line: str) -> str:
    line = line.partition(" SQLSTATE")[0].strip()
    return line if len(line) <= LINE_CHARS_MAX else line[: LINE_CHARS_MAX - 3] + "..."
