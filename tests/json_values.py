"""Values of records, plain JSON of a schema and others: what decodes the former must know the latter from them."""

from datetime import UTC, date, datetime
from typing import Any

SCHEMA = "a string, i int, l bigint, d double, b boolean, t timestamp, day date"
NOTHING = dict.fromkeys(("a", "i", "l", "d", "b", "t", "day"))

PLAIN: list[tuple[bytes, dict[str, Any]]] = [
    (b"{}", {}),
    (b'{"a":"x","i":-3,"d":0.1,"b":true}', {"a": "x", "i": -3, "d": 0.1, "b": True}),
    (b'{"l":9223372036854775807}', {"l": 2**63 - 1}),
    (b'{ "a" : null ,\t"z": {"q": [1, {"a": 2}]}, "A": 7 }', {}),
    ('{"a":"ü\\u00e9\\n\\ud83d\\ude00"}'.encode(), {"a": "üé\n😀"}),
    (b'{"d":1}', {"d": 1.0}),
    (b'{"d":123456789012345678901234567890}', {"d": 1.2345678901234568e29}),
    (b'{"a":"Infant NaN"}', {"a": "Infant NaN"}),
    (b'{"t":"2013-01-01T10:15:00Z"}', {"t": datetime(2013, 1, 1, 10, 15, tzinfo=UTC)}),
    (b'{"t":"2013-01-01T10:15:00.25Z"}', {"t": datetime(2013, 1, 1, 10, 15, 0, 250_000, tzinfo=UTC)}),
    (b'{"day":"2024-02-29"}', {"day": date(2024, 2, 29)}),
]
NOT_PLAIN: list[bytes] = [
    b"",
    b" ",
    b"null",
    b"[1]",
    b"x",
    b'{"a":1}',
    b'{"a":{"b":1}}',
    b'{"i":1.0}',
    b'{"i":1e1}',
    b'{"i":3000000000}',
    b'{"i":"5"}',
    b'{"d":"NaN"}',
    b'{"d":NaN}',
    b'{"d":[Infinity]}',
    b'{"d":1e999}',
    b'{"b":"true"}',
    b'{"b":1}',
    b'{"t":"2013-01-01 10:15:00"}',
    b'{"t":"2013-01-01T10:15:00+01:00"}',
    b'{"t":"2013-02-30T10:15:00Z"}',
    b'{"t":"2013-01-01T25:15:00Z"}',
    b'{"t":"soon"}',
    b'{"t":1357035300}',
    b'{"day":"2013-02-29"}',
    b'{"day":"2013-2-1"}',
    b'{"a":"x","a":"y"}',
    b'{"a":"x"}{"a":"y"}',
    b'{"a":"x"}\n{"a":"y"}',
    b'{"a":\n"x"}',
    b'{"a":"x"} ',
    b'{"a":"x"',
    b'{"a":"x",}',
    b"{'a':'x'}",
    b'{"a":"\\ud800"}',
    b'{"a":"\xff"}',
    b'{"a":"\x01"}',
    b'{"i":01}',
]
