"""Checks options of the data source and the data sink; without Spark nothing is reported."""

import re
from collections.abc import Mapping

from ottla.client.consuming.offsets import IsolationLevel
from ottla.pipelines.spec.model import Source

_SAID_BY_KEYS: Mapping[str, str] = {
    "subscribe": "say topics = [...]",
    "subscribepattern": 'say pattern = "..."',
    "startingoffsets": 'say start = "..."',
    "startingtimestamp": 'say start = "..."',
    "groupid": 'say group = "..."',
    "maxoffsetspertrigger": "say max_records = ...",
    "maxbytespertrigger": 'say max_bytes = "..."',
    "valueformat": 'say format = "..."',
    "kafka.bootstrap.servers": 'say bootstrap = "..." above all parts',
    "topic": 'say topic = "..."',
    "mode": 'say mode = "..."',
    "transactionalid": 'say transactional_id = "..."',
}
"""What the file has keys for, in lower case, and what to write."""


_PLAIN_TYPES = (
    "bigint|binary|boolean|byte|date|double|float|int|integer|long|real|short|smallint|string|timestamp|timestamp_ltz"
    "|timestamp_ntz|tinyint"
)
_PLAIN_COLUMN = rf"\s*(?:\w+|`[^`]+`)\s*[:\s]\s*(?:{_PLAIN_TYPES})\s*"
_PLAIN_COLUMNS = re.compile(f"{_PLAIN_COLUMN}(?:,{_PLAIN_COLUMN})*", re.IGNORECASE)


def isolation_of(source: Source) -> IsolationLevel:
    """The isolation level of a source: `read_committed`, unless its options set another one.

    What another pipeline, or `ottla dlq redrive`, aborts and writes again would be read twice.
    """
    said = {name.lower(): value.lower() for name, value in source.options.items()}.get("kafka.isolation.level")
    return IsolationLevel.READ_UNCOMMITTED if said == "read_uncommitted" else IsolationLevel.READ_COMMITTED


def wrong_read_option(name: str, value: str) -> str:
    """The mistake in an option of a source; None if it is valid."""
    return _said(name) or _refused(name, value, reading=True)


def wrong_write_option(name: str, value: str) -> str:
    """The mistake in an option of a sink; None if it is valid."""
    return _said(name) or _refused(name, value, reading=False)


def wrong_json_schema(schema: str) -> str:
    """Why values cannot be decoded strictly into these columns; None if they can.

    Columns of plain types always can: Spark, which takes a second to import, is asked about others only.
    """
    if _PLAIN_COLUMNS.fullmatch(schema):
        return ""
    try:
        from pyspark_ottla.json_values import json_struct
        from pyspark_ottla.options import OptionError
    except ImportError:
        return ""
    try:
        json_struct(schema.encode())
    except OptionError as error:
        return str(error).removeprefix("option valueSchema: ")
    return ""


def _said(name: str) -> str:
    instead = _SAID_BY_KEYS.get(name.lower())
    return f"{name} is a key of the file: {instead}" if instead else ""


def _refused(name: str, value: str, *, reading: bool) -> str:
    try:
        from pyspark_ottla.options import OptionError, Options
        from pyspark_ottla.read_options import READ_OPTIONS
        from pyspark_ottla.write_options import WRITE_OPTIONS
    except ImportError:
        return ""
    try:
        Options({name: value}, READ_OPTIONS if reading else WRITE_OPTIONS)
    except OptionError as error:
        return str(error)
    return ""
