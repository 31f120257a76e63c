"""YAML with positions, limited to JSON's data model: no aliases, no tags; scalars that are not JSON are text.

An alias is refused, since a few lines of them can stand for more than any memory holds; `on`, `no` and `12:30` stay the
texts that they look like (YAML 1.2).
"""

import re
from typing import Any

from ottla.pipelines.spec.document import NESTING_MAX, DocumentError, Node, too_deep
from ottla.pipelines.spec.mistake import Position

_PREFIX = "tag:yaml.org,2002:"
_TAGS = frozenset({"str", "int", "float", "bool", "null", "map", "seq", "timestamp"})
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "~": None, "": None}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(0|[1-9][0-9_]*)(\.[0-9_]+)?([eE][-+]?[0-9]+)?|[-+]?\.(inf|nan)")


def read_yaml(text: str) -> Node:
    """The document. Raises DocumentError for a text that is not YAML, is several documents, has aliases or tags."""
    try:
        import yaml
    except ImportError:
        raise DocumentError("PyYAML is not installed", Position(), "pip install 'ottla[pipelines]', or TOML") from None
    try:
        # Event by event: the parser takes quadratic time for what nests deep, and is not asked on once that is seen.
        return _document(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        raise DocumentError(f"this is not YAML: {error.problem}", _position(error.problem_mark)) from None
    except yaml.YAMLError as error:
        raise DocumentError(f"this is not YAML: {' '.join(str(error).split())}", Position()) from None
    except (RecursionError, ValueError) as error:  # PyYAML turns a number of an escape into a character unasked
        raise DocumentError(f"this is not YAML: {error}", Position()) from None


def _document(events: Any) -> Node:
    next(events)  # the stream
    if type(next(events)).__name__ != "DocumentStartEvent":
        return Node({}, Position())
    node = _node(next(events), events, 0)
    next(events)  # the end of the document
    after = next(events)
    if type(after).__name__ != "StreamEndEvent":
        raise DocumentError("a second document begins here", _position(after.start_mark), "one pipeline is one file")
    return node


def _node(event: Any, events: Any, depth: int) -> Node:
    at = _position(event.start_mark)
    kind = type(event).__name__
    if depth > NESTING_MAX:
        raise too_deep(at)
    if kind == "AliasEvent" or event.anchor is not None:
        raise DocumentError("anchors and aliases are not supported", at, "write the value where it is used")
    if event.tag is not None and event.tag != "!" and event.tag.removeprefix(_PREFIX) not in _TAGS:
        raise DocumentError(f"the tag {event.tag} is not supported", at, "write plain values")
    if kind == "ScalarEvent":
        quoted = event.style is not None or event.tag in ("!", f"{_PREFIX}str")
        return Node(event.value if quoted else _plain(event.value), at)
    if kind == "SequenceStartEvent":
        return Node([_node(each, events, depth + 1) for each in _until(events, "SequenceEndEvent")], at)
    values: dict[str, Node] = {}
    keys: dict[str, Position] = {}
    for key in _until(events, "MappingEndEvent"):
        where = _position(key.start_mark)
        if type(key).__name__ != "ScalarEvent":
            raise DocumentError("a key must be a string", where)
        if key.anchor is not None:
            raise DocumentError("anchors and aliases are not supported", where, "write the value where it is used")
        if key.value in keys:
            raise DocumentError(f"the key {key.value} appears twice", where, f"first in line {keys[key.value].line}")
        keys[key.value] = where
        values[key.value] = _node(next(events), events, depth + 1)
    return Node(values, at, keys)


def _until(events: Any, end: str) -> Any:
    while type(event := next(events)).__name__ != end:
        yield event


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return _number(int, text)
    if _FLOAT.fullmatch(text):
        return _number(float, text.replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _number(kind: Any, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:  # underscores that Python would not have, more digits than Python turns into a number
        return text


def _position(mark: Any) -> Position:
    return Position() if mark is None else Position(mark.line + 1, mark.column + 1)
