"""Reads the metrics that clients push (KIP-714): `MetricsData` of OpenTelemetry in Protocol Buffers.

```
MetricsData 1 -> ResourceMetrics 2 -> ScopeMetrics 2 -> Metric  1 name, 3 unit
                                                        5 gauge, 7 sum, 9 histogram
                                                            1 -> data point  7 attributes, 4 or 6 value
```

Fields that are not asked for are passed over. Source:
https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/metrics/v1/metrics.proto and
https://protobuf.dev/programming-guides/encoding/.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.model.errors import InvalidInputError

POINTS_MAX: Final = 100_000
"""Data points of one push: a client with a thousand partitions has some ten thousand."""

TEXT_BYTES_MAX: Final = 4_096
"""Of one name, unit, or attribute; what is longer is cut."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_DOUBLE: Final = struct.Struct("<d")
_INTEGER: Final = struct.Struct("<q")
_KINDS: Final = {5: "gauge", 7: "sum", 9: "histogram"}
_DELTA: Final = 1
"""AGGREGATION_TEMPORALITY_DELTA: since the push before, not since the start."""

_Value = int | memoryview


class MetricPoint(NamedTuple):
    """One value of one metric; of a histogram, one for its count and one for its sum."""

    name: str
    kind: str
    """`gauge`, `sum` (since the start), `delta` (since the push before), or `histogram`."""
    unit: str
    attributes: tuple[tuple[str, str], ...]
    value: float


def decode_metrics(data: bytes | memoryview) -> list[MetricPoint]:
    """The data points of a push, as it is when decompressed.

    Raises InvalidInputError for bytes that are no such message, and for more than POINTS_MAX points.
    """
    points: list[MetricPoint] = []
    for resource in _messages(memoryview(data), 1):
        for scope in _messages(resource, 2):
            for metric in _messages(scope, 2):
                points.extend(_points(metric))
                if len(points) > POINTS_MAX:
                    raise InvalidInputError(f"a push has more than {POINTS_MAX} values")
    return points


def _points(metric: memoryview) -> Iterator[MetricPoint]:
    name = unit = ""
    found: list[tuple[str, memoryview]] = []
    for number, kind, value in _fields(metric):
        if kind != _BYTES:
            continue
        assert isinstance(value, memoryview)
        if number == 1:
            name = _text(value)
        elif number == 3:
            unit = _text(value)
        elif number in _KINDS:
            found.append((_KINDS[number], value))
    for what, data in found:
        is_delta = any((number, value) == (2, _DELTA) for number, _, value in _fields(data))
        for point in _messages(data, 1):
            if what == "histogram":
                yield from _histogram(name, unit, point)
            else:
                yield MetricPoint(name, "delta" if is_delta else what, unit, _attributes(point, 7), _number(point))


def _histogram(name: str, unit: str, point: memoryview) -> Iterator[MetricPoint]:
    attributes = _attributes(point, 9)
    for number, kind, value in _fields(point):
        if kind == _FIXED64 and number in (4, 5):
            assert isinstance(value, memoryview)
            is_count = number == 4
            (amount,) = (_INTEGER if is_count else _DOUBLE).unpack(value)
            suffix = ".count" if is_count else ".sum"
            yield MetricPoint(name + suffix, "histogram", "" if is_count else unit, attributes, amount)


def _number(point: memoryview) -> float:
    for number, kind, value in _fields(point):
        if kind == _FIXED64 and number in (4, 6):
            assert isinstance(value, memoryview)
            amount: float = (_DOUBLE if number == 4 else _INTEGER).unpack(value)[0]
            return amount
    return 0.0


def _attributes(point: memoryview, field_number: int) -> tuple[tuple[str, str], ...]:
    found = []
    for attribute in _messages(point, field_number):
        key = value = ""
        for number, kind, each in _fields(attribute):
            if kind == _BYTES and number == 1:
                assert isinstance(each, memoryview)
                key = _text(each)
            elif kind == _BYTES and number == 2:
                assert isinstance(each, memoryview)
                value = _any_value(each)
        found.append((key, value))
    return tuple(sorted(found))


def _any_value(data: memoryview) -> str:
    for number, kind, value in _fields(data):
        if isinstance(value, int):
            return str(bool(value)).lower() if number == 2 else str(_signed(value))
        if kind == _FIXED64:
            return str(_DOUBLE.unpack(value)[0])
        if number == 1:
            return _text(value)
    return ""


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _text(data: memoryview) -> str:
    return bytes(data[:TEXT_BYTES_MAX]).decode(errors="replace")


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    """The messages in the fields of one number."""
    for number, kind, value in _fields(data):
        if number == wanted and kind == _BYTES:
            assert isinstance(value, memoryview)
            yield value


def _fields(data: memoryview) -> Iterator[tuple[int, int, _Value]]:
    """Number, wire type and value of each field, in the order of the bytes. Raises InvalidInputError."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield number, kind, value
            continue
        if kind == _BYTES:
            size, position = _varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise InvalidInputError(f"a push has a field of wire type {kind}, which there is not")
        if size > len(data) - position:
            raise InvalidInputError("a push ends in the middle of a field")
        yield number, kind, data[position : position + size]
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """An unsigned number, and where the next field begins."""
    number = 0
    for index in range(_VARINT_BYTES_MAX):
        if position + index >= len(data):
            raise InvalidInputError("a push ends in the middle of a number")
        byte = data[position + index]
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, position + index + 1
    raise InvalidInputError("a push has a number of more than ten bytes")
