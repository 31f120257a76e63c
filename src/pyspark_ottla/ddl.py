"""Parses Spark's DDL for columns, as in `id long, tags array<string>`, without a JVM.

The processes in which Spark asks a Python source for its columns have none, and PySpark leaves these words to it.
"""

import re

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_TOKEN = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<word>\w+)|(?P<mark>[<>(),:]))")
_TYPES: dict[str, type[DataType]] = {
    "bigint": LongType,
    "binary": BinaryType,
    "boolean": BooleanType,
    "byte": ByteType,
    "date": DateType,
    "double": DoubleType,
    "float": FloatType,
    "int": IntegerType,
    "integer": IntegerType,
    "long": LongType,
    "real": FloatType,
    "short": ShortType,
    "smallint": ShortType,
    "string": StringType,
    "timestamp": TimestampType,
    "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
    "tinyint": ByteType,
}
_DECIMAL = ("decimal", "dec", "numeric")
_NESTED_MAX = 32
"""Types within types: more is a mistake, or made to be one."""


def struct_of(text: str) -> StructType:
    """Parse columns. Raises ValueError, which names the place and what was expected there.

    >>> struct_of("id long, tags array<string>").simpleString()
    'struct<id:bigint,tags:array<string>>'
    """
    words = _Words(text)
    fields = words.fields("")
    return StructType(fields)


class _Words:
    """The words of one text, taken one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._at = 0
        self._depth = 0

    def fields(self, end: str) -> list[StructField]:
        """Names and types up to the mark `end`, or to the end of the text."""
        found: list[StructField] = []
        while True:
            name = self._name()
            if any(each.name == name for each in found):
                raise ValueError(f"the column {name} is there twice")
            self._take(":")
            found.append(StructField(name, self._type()))
            if self._take(","):
                continue
            self._expect(end, "a comma")
            return found

    def _type(self) -> DataType:
        self._depth += 1
        if self._depth > _NESTED_MAX:
            raise ValueError(f"more than {_NESTED_MAX} types within each other")
        try:
            name = self._name().lower()
            if name in _DECIMAL:
                return self._decimal()
            if name == "array" and self._take("<"):
                item = self._type()
                self._expect(">", "")
                return ArrayType(item)
            if name == "map" and self._take("<"):
                return self._map()
            if name == "struct" and self._take("<"):
                return StructType(self.fields(">"))
            if name in _TYPES:
                return _TYPES[name]()
        finally:
            self._depth -= 1
        raise ValueError(
            f"{name!r} is not a type; types are {', '.join(sorted(_TYPES))}, decimal(...), array<...>, map<string, ...>"
            " and struct<...>"
        )

    def _map(self) -> MapType:
        key = self._type()
        if not isinstance(key, StringType):
            raise ValueError(f"a map has keys of type string, not {key.simpleString()}")
        self._expect(",", "")
        value = self._type()
        self._expect(">", "")
        return MapType(key, value)

    def _decimal(self) -> DecimalType:
        if not self._take("("):
            return DecimalType(10, 0)
        precision, scale = self._number(), 0
        if self._take(","):
            scale = self._number()
        self._expect(")", "")
        if not 0 <= scale <= precision <= 38 or precision == 0:
            raise ValueError(
                f"decimal({precision}, {scale}): there are 1 to 38 digits, and no more of them after the point"
            )
        return DecimalType(precision, scale)

    def _number(self) -> int:
        found = self._next()
        if found is None or not (found["word"] or "").isdecimal():
            raise self._missing("a number")
        self._at = found.end()
        return int(found["word"])

    def _name(self) -> str:
        found = self._next()
        name = None if found is None else found["quoted"] or found["word"]
        if found is None or name is None:
            raise self._missing("a name")
        self._at = found.end()
        return name

    def _take(self, mark: str) -> bool:
        found = self._next()
        if found is None or found["mark"] != mark:
            return False
        self._at = found.end()
        return True

    def _expect(self, mark: str, other: str) -> None:
        if (self._take(mark)) if mark else self._at == len(self._text):
            return
        raise self._missing(" or ".join(filter(None, [other, repr(mark) if mark else "the end"])))

    def _next(self) -> re.Match[str] | None:
        return _TOKEN.match(self._text, self._at)

    def _missing(self, what: str) -> ValueError:
        rest = self._text[self._at :].strip()
        return ValueError(f"expected {what} {f'before {rest[:20]!r}' if rest else 'at the end'}")
