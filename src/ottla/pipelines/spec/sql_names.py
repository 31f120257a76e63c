"""Finds the relations that a query reads, without an SQL parser: the names after FROM and JOIN.

Good enough to draw a graph and to find typing errors; what it does not understand it takes for nothing, and Spark says
the rest when the pipeline is compiled.
"""

import re
from itertools import pairwise

_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:\\.|''|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`(?:``|[^`])*`|[A-Za-z_][\w.]*|[^\s\w]|\w+",
    re.DOTALL,
)
_AFTER_FROM = """
select where group order having limit union except intersect window lateral cluster distribute sort minus
"""
_ENDS_FROM = frozenset(_AFTER_FROM.split())
_WINDOWS = frozenset({"window", "session_window"})
_NOT_RELATIONS = frozenset({"select", "values", "table", "lateral", "unnest", "stream"})


def has_windows(query: str) -> bool:
    """Whether a query groups by windows of event time.

    >>> has_windows("select window(at, '1 hour') from a"), has_windows("select sum(n) over (order by at) from window")
    (True, False)
    """
    words = [token.lower() for token in _tokens(query)]
    return any(word in _WINDOWS and after == "(" for word, after in pairwise(words))


def joins(query: str) -> bool:
    """Whether a query joins relations.

    >>> joins("select * from a left join b"), joins("select 'a join b' from a")
    (True, False)
    """
    return any(token.lower() == "join" for token in _tokens(query))


def _tokens(query: str) -> list[str]:
    return [token for token in _TOKEN.findall(query) if not token.startswith(("--", "/*"))]


def relations(query: str) -> tuple[str, ...]:
    """The names a query reads, in their order, each once; those it defines itself (WITH) left out.

    >>> relations("with x as (select * from a) select extract(year from t) from x join `b-c` on true, d")
    ('a', 'b-c', 'd')
    """
    tokens = _tokens(query)
    found: dict[str, None] = {}
    # For each open parenthesis: whether it holds a query, and whether we are in its list of relations.
    queries, listing = [True], [False]
    expected = False
    for index, part in enumerate(tokens):
        word = part.lower()
        after = tokens[index + 1] if index + 1 < len(tokens) else ""
        if part == "(":
            queries.append(after.lower() in ("select", "with", "from", "values", "("))
            listing.append(expected)
            # A parenthesis in place of a relation is a query, or a join in parentheses.
            queries[-1] = queries[-1] or expected
            expected = expected and after.lower() not in ("select", "with", "values")
        elif part == ")" and len(queries) > 1:
            queries.pop()
            listing.pop()
            expected = False
        elif word == "from" and queries[-1] and not _is_distinct_from(tokens, index):
            expected = listing[-1] = True
        elif word == "join":
            expected = True
        elif word in _ENDS_FROM and not expected:
            listing[-1] = False
        elif part == "," and listing[-1]:
            expected = True
        elif expected:
            expected = word in ("lateral",)
            if word not in _NOT_RELATIONS and after != "(" and re.match(r"[A-Za-z_`]", part):
                found.setdefault(part.strip("`").replace("``", "`"))
    defined = _defined(tokens)
    return tuple(name for name in found if name.lower() not in defined)


def _is_distinct_from(tokens: list[str], index: int) -> bool:
    before = [token.lower() for token in tokens[max(0, index - 2) : index]]
    return len(before) == 2 and before[1] == "distinct" and before[0] in ("is", "not")


def _defined(tokens: list[str]) -> frozenset[str]:
    """The names before `AS (`, and those before `(columns) AS (`: what WITH defines."""
    words = [token.lower() for token in tokens]
    if "with" not in words:
        return frozenset()
    names = set()
    for index in range(1, len(words) - 1):
        if words[index] == "as" and words[index + 1] == "(":
            at = index - 1
            if words[at] == ")":
                while at > 0 and words[at] != "(":
                    at -= 1
                at -= 1
            names.add(words[at].strip("`"))
    return frozenset(names)
