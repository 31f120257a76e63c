"""Expressions over letters: a recursive descent parser that makes functions.

```
  any       = all { OR all }
  all       = condition { AND condition }
  condition = NOT condition | ( any ) | field test
  test      = ( = | != | < | <= | > | >= ) literal  |  IS [NOT] NULL
            | [NOT] ( LIKE text | CONTAINS text | IN ( literal { , literal } ) | BETWEEN literal AND literal )
  field     = name | header ( text ) | value { . name | [ number ] }
```

As in SQL, a condition about what is not known is neither true nor false, and neither is its opposite: only letters for
which the whole is true are selected. JSON fields that are not of the literal's type count as not known.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.pipelines.dead_letters.headers import Letter
from ottla.pipelines.dead_letters.where.fields import FIELDS, Field, FieldKind, Subject, header, json_field
from ottla.pipelines.dead_letters.where.text_pattern import text_pattern
from ottla.pipelines.dead_letters.where.tokens import Kind, Token, WhereError, tokens_of

DEPTH_MAX: Final = 50
"""The maximum number of conditions within each other."""
PATH_MAX: Final = 20
"""The maximum number of steps to a field of a value."""

ParseTime = Callable[[str], int]
"""The milliseconds since 1970 of a time; raises ValueError."""
Test = Callable[[Subject], bool | None]
"""None: not known."""

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_LITERALS: Final = {
    FieldKind.TEXT: {Kind.TEXT},
    FieldKind.NUMBER: {Kind.NUMBER},
    FieldKind.TIME: {Kind.TEXT, Kind.NUMBER},
    FieldKind.AGE: {Kind.DURATION},
    FieldKind.ANY: {Kind.TEXT, Kind.NUMBER},
}


class Where:
    """An expression. Times and ages are counted from `now_ms`."""

    def __init__(self, test: Test, now_ms: int) -> None:
        self._test = test
        self._now_ms = now_ms

    def takes(self, record: ConsumerRecord, letter: Letter) -> bool:
        """Whether the letter is selected."""
        return self._test(Subject(record, letter, self._now_ms)) is True


def parse(text: str, now_ms: int, parse_time: ParseTime) -> Where:
    """The expression that a text is. Raises WhereError, with the position of what is wrong.

    >>> where = parse("attempts >= 3 AND NOT reason LIKE 'timeout%'", 0, int)
    """
    parser = _Parser(tokens_of(text), parse_time)
    test = parser.any_of(0)
    parser.expect_end()
    return Where(test, now_ms)


class _Parser:
    def __init__(self, tokens: Sequence[Token], parse_time: ParseTime) -> None:
        self._tokens = tokens
        self._parse_time = parse_time
        self._index = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def _take(self) -> Token:
        token = self._next
        if token.kind is not Kind.END:
            self._index += 1
        return token

    def _takes(self, value: str) -> bool:
        """Whether a keyword or sign follows, which is then taken."""
        found = self._next.kind in (Kind.KEYWORD, Kind.SIGN) and self._next.value == value
        self._index += found
        return found

    def _expect(self, value: str) -> None:
        if not self._takes(value):
            raise self._wrong(f"{value.upper()} was expected")

    def _wrong(self, what: str) -> WhereError:
        token = self._next
        found = "the end" if token.kind is Kind.END else token.written
        return WhereError(token.at, f"{what}, not {found[:40]}")

    def expect_end(self) -> None:
        """Nothing may follow."""
        if self._next.kind is not Kind.END:
            raise self._wrong("AND, OR or the end was expected")

    # --- conditions -------------------------------------------------------------------------------------------------

    def any_of(self, depth: int) -> Test:
        """Conditions joined by OR."""
        tests = [self._all_of(depth)]
        while self._takes("or"):
            tests.append(self._all_of(depth))
        return tests[0] if len(tests) == 1 else _first_that_is(tests, sought=True)

    def _all_of(self, depth: int) -> Test:
        tests = [self._condition(depth)]
        while self._takes("and"):
            tests.append(self._condition(depth))
        return tests[0] if len(tests) == 1 else _first_that_is(tests, sought=False)

    def _condition(self, depth: int) -> Test:
        if depth > DEPTH_MAX:
            raise WhereError(self._next.at, f"more than {DEPTH_MAX} conditions lie within each other")
        if self._takes("not"):
            return _opposite(self._condition(depth + 1))
        if self._takes("("):
            test = self.any_of(depth + 1)
            self._expect(")")
            return test
        return self._test(self._field())

    def _test(self, field: Field) -> Test:
        read = field.read
        if self._takes("is"):
            negated = self._takes("not")
            self._expect("null")
            return (lambda subject: read(subject) is not None) if negated else (lambda subject: read(subject) is None)
        if self._next.kind is Kind.SIGN and self._next.value in _COMPARISONS:
            compare = _COMPARISONS[str(self._take().value)]
            wanted = self._literal(field)
            return _compared(field, wanted, lambda found: compare(found, wanted))
        negated = self._takes("not")
        test = self._word_test(field)
        return _opposite(test) if negated else test

    def _word_test(self, field: Field) -> Test:
        if self._next.value in ("like", "contains") and field.kind not in (FieldKind.TEXT, FieldKind.ANY):
            raise WhereError(
                self._next.at, f"{self._next.written} is for texts; this field is {field.kind.name.lower()}"
            )
        if self._takes("like"):
            return _compared(field, "", text_pattern(self._text()))
        if self._takes("contains"):
            part = self._text()
            return _compared(field, "", lambda found: part in found)
        if self._takes("between"):
            low = self._literal(field)
            self._expect("and")
            at = self._next.at
            high = self._literal(field)
            if _type_of(low) is not _type_of(high):
                raise WhereError(at, "both ends of BETWEEN must be of one type")
            return _compared(field, low, lambda found: low <= found <= high)
        if self._takes("in"):
            self._expect("(")
            tests = [self._equals(field)]
            while self._takes(","):
                tests.append(self._equals(field))
            self._expect(")")
            return _first_that_is(tests, sought=True)
        raise self._wrong("=, !=, <, <=, >, >=, LIKE, CONTAINS, IN, BETWEEN or IS was expected")

    def _equals(self, field: Field) -> Test:
        wanted = self._literal(field)
        return _compared(field, wanted, lambda found: bool(found == wanted))

    # --- fields and literals ----------------------------------------------------------------------------------------

    def _field(self) -> Field:
        token = self._next
        if token.kind is not Kind.NAME:
            raise self._wrong("the name of a field was expected")
        self._take()
        if token.value == "header":
            self._expect("(")
            name = self._text()
            self._expect(")")
            return header(name)
        field = FIELDS.get(str(token.value))
        if field is None:
            raise WhereError(
                token.at, f"{token.written[:40]} is no field; there are {', '.join(FIELDS)}, header('NAME')"
            )
        path = self._path() if token.value == "value" else []
        return json_field(path) if path else field

    def _path(self) -> list[str | int]:
        path: list[str | int] = []
        while True:
            at = self._next.at
            if self._takes("."):
                if self._next.kind not in (Kind.NAME, Kind.KEYWORD):
                    raise self._wrong('a name was expected, in double quotes if it is not of letters, digits and "_"')
                token = self._take()
                path.append(str(token.value) if token.written.startswith('"') else token.written)
            elif self._takes("["):
                index = self._take()
                if index.kind is not Kind.NUMBER or not isinstance(index.value, int) or index.value < 0:
                    raise WhereError(index.at, "an index from 0 on was expected")
                path.append(index.value)
                self._expect("]")
            else:
                return path
            if len(path) > PATH_MAX:
                raise WhereError(at, f"a path has at most {PATH_MAX} steps")

    def _text(self) -> str:
        if self._next.kind is not Kind.TEXT:
            raise self._wrong("a text in single quotes was expected")
        return str(self._take().value)

    def _literal(self, field: Field) -> Any:
        token, kind = self._next, field.kind
        value: Any = token.value
        if token.kind is Kind.KEYWORD and token.value == "null":
            raise WhereError(token.at, "nothing is equal to NULL: use IS NULL or IS NOT NULL")
        if kind is FieldKind.ANY and token.kind is Kind.KEYWORD and token.value in ("true", "false"):
            value = token.value == "true"
        elif token.kind not in _LITERALS[kind]:
            raise self._wrong(f"{kind.value} was expected")
        elif kind is FieldKind.TIME and token.kind is Kind.TEXT:
            try:
                value = self._parse_time(str(token.value))
            except ValueError as error:
                raise WhereError(token.at, str(error)) from None
        self._take()
        return value


def _type_of(value: Any) -> type:
    return bool if isinstance(value, bool) else float if isinstance(value, int | float) else str


def _compared(field: Field, wanted: Any, compare: Callable[[Any], bool]) -> Test:
    """Compares a field with what is of one type with `wanted`."""
    read, wanted_type, is_any = field.read, _type_of(wanted), field.kind is FieldKind.ANY

    def test(subject: Subject) -> bool | None:
        found = read(subject)
        if found is None or (is_any and _type_of(found) is not wanted_type):
            return None
        return compare(found)

    return test


def _first_that_is(tests: Sequence[Test], *, sought: bool) -> Test:
    """OR of tests if true is sought, AND if false is: what decides, else not known if one is not."""

    def test(subject: Subject) -> bool | None:
        outcome: bool | None = not sought
        for each in tests:
            found = each(subject)
            if found is sought:
                return sought
            if found is None:
                outcome = None
        return outcome

    return test


def _opposite(test: Test) -> Test:
    def opposite(subject: Subject) -> bool | None:
        found = test(subject)
        return None if found is None else not found

    return opposite
