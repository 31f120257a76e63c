"""OpenTelemetry's metrics are read as the format says, against bytes written here field by field."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.errors import InvalidInputError
from ottla.protocol import otlp_metrics
from ottla.protocol.otlp_metrics import MetricPoint, decode_metrics


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def sized(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def fixed(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<q", value)


def text_attribute(field: int, key: str, value: str) -> bytes:
    return sized(field, sized(1, key.encode()) + sized(2, sized(1, value.encode())))


def metrics_data(*metrics: bytes) -> bytes:
    resource = sized(1, text_attribute(1, "host", "h"))
    scope = sized(1, sized(1, b"scope"))
    return sized(1, resource + sized(2, scope + b"".join(sized(2, each) for each in metrics)))


def test_gauges_sums_deltas_and_histograms_are_read():
    gauge = sized(1, b"a.gauge") + sized(2, b"said of it") + sized(3, b"ms")
    gauge += sized(5, sized(1, fixed(2, 1) + fixed(3, 2) + double(4, 1.5) + text_attribute(7, "node", "1")))
    total = sized(1, b"a.total") + sized(7, sized(1, fixed(6, -7)) + varint(2 << 3) + varint(2))
    delta = sized(1, b"a.delta") + sized(7, sized(1, fixed(6, 7)) + varint(2 << 3) + varint(1))
    histogram = sized(1, b"a.time") + sized(3, b"s")
    histogram += sized(9, sized(1, fixed(4, 3) + double(5, 0.25) + text_attribute(9, "k", "v")))
    assert decode_metrics(metrics_data(gauge, total) + metrics_data(delta, histogram)) == [
        MetricPoint("a.gauge", "gauge", "ms", (("node", "1"),), 1.5),
        MetricPoint("a.total", "sum", "", (), -7),
        MetricPoint("a.delta", "delta", "", (), 7),
        MetricPoint("a.time.count", "histogram", "", (("k", "v"),), 3),
        MetricPoint("a.time.sum", "histogram", "s", (("k", "v"),), 0.25),
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (sized(1, b"x"), "x"),
        (varint(2 << 3) + varint(1), "true"),
        (varint(3 << 3) + varint((1 << 64) - 5), "-5"),
        (double(4, 0.5), "0.5"),
        (b"", ""),
    ],
)
def test_attributes_of_each_type_are_shown(value, shown):
    attribute = sized(7, sized(1, b"k") + sized(2, value))
    metric = sized(1, b"m") + sized(5, sized(1, fixed(6, 1) + attribute))
    assert decode_metrics(metrics_data(metric))[0].attributes == (("k", shown),)


def test_no_bytes_are_no_metrics():
    assert decode_metrics(b"") == []


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05ab", b"\x0b", b"\x80" * 10 + b"\x01", b"\x0a\x02\x12\x7f", b"\x09abc"],
    ids=["no length", "cut short", "a group", "a long number", "cut short within", "half a number"],
)
def test_bytes_that_are_no_metrics_are_refused(data):
    with pytest.raises(InvalidInputError):
        decode_metrics(data)


def test_more_values_than_anybody_looks_at_are_refused(monkeypatch):
    monkeypatch.setattr(otlp_metrics, "POINTS_MAX", 3)
    metric = sized(1, b"m") + sized(5, sized(1, fixed(6, 1)) * 2)
    assert len(decode_metrics(metrics_data(metric))) == 2
    with pytest.raises(InvalidInputError, match="more than 3 values"):
        decode_metrics(metrics_data(metric, metric))


@given(st.binary(max_size=200))
def test_whatever_comes_is_read_or_refused(data):
    for wrapped in (data, metrics_data(data), metrics_data(sized(5, sized(1, data)))):
        with contextlib.suppress(InvalidInputError):
            decode_metrics(wrapped)
