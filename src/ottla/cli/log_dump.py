"""`ottla log dump`: show what lies in the files of a data directory, without a broker."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.log_files import Row, is_log_file, rows
from ottla.cli.time_text import time_text
from ottla.model.errors import InvalidInputError
from ottla.model.printable import printable


@click.command("dump")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-r", "--records", is_flag=True, help="Show the records of each batch.")
@click.option("-n", "--limit", type=click.IntRange(1), help="The maximum number of lines of each file.")
@click.option("-J", "--json", "as_json", is_flag=True, help="One JSON object a line.")
def log_dump(paths: tuple[Path, ...], records: bool, limit: int | None, as_json: bool) -> None:
    """Show the contents of log, index, time index, snapshot and checkpoint files.

    PATH is a file, the directory of a partition, or a data directory, Ottla's or Kafka's. The broker may be running.
    Records of internal topics are shown by their fields. If a log is damaged, the command reports where and why, and
    exits with 1.

    \b
    Examples:
      ottla log dump ottla-data/events-0
      ottla log dump --records --json ottla-data/events-0/00000000000000000000.log
    """
    damaged: list[str] = []
    for index, path in enumerate(_files(paths)):
        found = _watch(path, rows(path, records=records), damaged)
        if as_json:
            for row in islice(found, limit):
                click.echo(_json({"file": str(path)} | row))
        else:
            click.echo(("\n" if index else "") + str(path))
            _show(islice(found, limit))
    if damaged:
        raise CommandError(damaged[0])


def _files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.is_file() and is_log_file(each))
            if not inside:
                raise CommandError(f"{path}: no log files in it", ExitCode.NOT_FOUND)
            found += inside
        elif not path.exists():
            raise CommandError(f"{path}: no such file or directory", ExitCode.NOT_FOUND)
        elif not is_log_file(path):
            raise CommandError(f"{path}: the name is not that of a file of a data directory", ExitCode.USAGE)
        else:
            found.append(path)
    return found


def _watch(path: Path, found: "Iterator[Row]", damaged: list[str]) -> "Iterator[Row]":
    """Pass rows on, and remember damage; a file that cannot be read further ends there, and the next one follows."""
    try:
        for row in found:
            if row["kind"] == "damage":
                damaged.append(f"{path}: damaged at byte {row['position']}: {row['reason']}")
            yield row
    except InvalidInputError as error:
        damaged.append(f"{path}: {error}")


def _show(found: "Iterable[Row]") -> None:
    header: str | None = None
    for row in found:
        columns, line = _LINES[row["kind"]](row)
        if columns is not None and columns != header:
            header = columns
            click.echo(columns)
        click.echo(line)


def _batch_line(row: "Row") -> tuple[str, str]:
    producer = "-"
    if row["producer_id"] >= 0:
        sequences = f"{row['base_sequence']}..{row['last_sequence']}"
        producer = f"{row['producer_id']}/{row['producer_epoch']} #{sequences}"
    flags = [name for name in ("transactional", "control") if row[name]]
    flags += ["log-append-time"] if row["timestamp_type"] == "LogAppendTime" else []
    offsets = f"{row['base_offset']}..{row['last_offset']}"
    line = (
        f"  {offsets:<21} {row['record_count']:>7} {row['position']:>10} {row['size']:>9} {row['codec']:<6} "
        f"{row['leader_epoch']:>5} {_time(row['max_timestamp']):<24} {producer}  {','.join(flags)}"
    )
    return _BATCH_COLUMNS, line.rstrip()


_BATCH_COLUMNS = (
    f"  {'OFFSETS':<21} {'RECORDS':>7} {'POSITION':>10} {'SIZE':>9} {'CODEC':<6} {'EPOCH':>5} {'MAX TIME':<24} PRODUCER"
)


def _record_line(row: "Row") -> tuple[None, str]:
    headers = " ".join(f"{printable(name)}={_text(value)}" for name, value in row["headers"])
    about = f"{row['record_type']} " if "record_type" in row else ""
    line = f"    @{row['offset']} {_time(row['timestamp'])} {about}key={_text(row['key'])} value={_text(row['value'])}"
    return None, f"{line} {headers}".rstrip()


def _control_line(row: "Row") -> tuple[None, str]:
    return None, f"    @{row['offset']} {_time(row['timestamp'])} {row['type']} marker"


def _damage_line(row: "Row") -> tuple[None, str]:
    return None, f"  damaged at byte {row['position']}, {row['bytes_left']} bytes before the end: {row['reason']}"


def _fields_line(row: "Row") -> tuple[None, str]:
    return None, "  " + "  ".join(f"{name} {printable(str(value))}" for name, value in row.items() if name != "kind")


def _time_line(row: "Row") -> tuple[None, str]:
    return None, f"  time {_time(row['timestamp'])} ({row['timestamp']})  offset {row['offset']}"


def _property_line(row: "Row") -> tuple[None, str]:
    return None, printable(f"  {row['name']}={row['value']}")


_LINES: "dict[str, Callable[[Row], tuple[str | None, str]]]" = {
    "batch": _batch_line,
    "record": _record_line,
    "control": _control_line,
    "damage": _damage_line,
    "offset": _fields_line,
    "time": _time_line,
    "aborted_transaction": _fields_line,
    "producer": _fields_line,
    "checkpoint": _fields_line,
    "property": _property_line,
}


def _time(timestamp_ms: int) -> str:
    return time_text(timestamp_ms) if timestamp_ms >= 0 else str(timestamp_ms)


def _text(content: Any) -> str:
    """Readable on one line: printable text as it is, other bytes in hexadecimal."""
    if content is None:
        return "null"
    if isinstance(content, dict):
        return _json(content)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"0x{content.hex()}"
    return text if text.isprintable() else _json(text)


def _json(value: Any) -> str:
    return printable(json.dumps(_plain(value), ensure_ascii=False))


def _plain(value: Any) -> Any:
    """The same as JSON has it: bytes as text, or `{"base64": ...}` where they are none."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes | memoryview):
        content = bytes(value)
        try:
            return content.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(content).decode()}
    return value
