"""`ottla log verify`: check the files of a data directory that no broker uses, without changing them."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.model.printable import printable
from ottla.runtime.disk import OsDisk
from ottla.storage.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    META_PROPERTIES,
    PARTITION_METADATA,
    parse_log_directory_name,
    parse_offset_file_name,
)
from ottla.storage.log_verification import (
    DirectoryState,
    LogVerification,
    VerifiedLog,
    log_directories,
    read_directory_state,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.model.topic_partition import TopicPartition
    from ottla.storage.segment_verification import Finding


@click.command("verify")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-J", "--json", "as_json", is_flag=True, help="One JSON object a line, for each log.")
def log_verify(paths: tuple[Path, ...], as_json: bool) -> None:
    """Check logs for damage: batches, indexes, leader epochs, snapshots and checkpoints.

    PATH is a data directory or the directory of a partition, Ottla's or Kafka's. The broker must be stopped; nothing is
    changed. A note is something that the next start repairs, for example an incomplete batch at the end after a kill.
    The exit code is 1 when anything else is wrong.

    \b
    Examples:
      ottla log verify ottla-data
      ottla log verify --json ottla-data/events-0
    """
    disk = OsDisk()
    checked = 0
    damaged: list[str] = []
    with ExitStack() as held:
        places = [_place(path) for path in paths]
        for directory in dict.fromkeys(directory for directory, _ in places):
            held.enter_context(_left_alone(directory))
        for directory, logs in places:
            state = read_directory_state(disk, str(directory))
            _show_directory(directory, state, as_json)
            damaged += [str(directory)] if state.findings else []
            for path, name in logs:
                verified = LogVerification(disk, path, name, state).run()
                _show_log(path, verified, as_json)
                checked += 1
                damaged += [path] if verified.is_damaged else []
    if damaged:
        others = f", and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        raise CommandError(f"{damaged[0]} is damaged{others}")
    if not as_json:
        click.echo(f"{checked} {'log' if checked == 1 else 'logs'}: nothing is damaged")


def _place(path: Path) -> tuple[Path, "list[tuple[str, TopicPartition]]"]:
    """The data directory and the logs in it that are asked for."""
    if not path.exists():
        raise CommandError(f"{path}: no such file or directory", ExitCode.NOT_FOUND)
    if not path.is_dir():
        raise CommandError(f"{path}: neither a data directory nor the directory of a partition", ExitCode.USAGE)
    logs = list(log_directories(OsDisk(), str(path)))
    if (path / META_PROPERTIES).exists():
        return path, logs
    logs = [(each, name) for each, name in logs if _has_log_files(Path(each))]
    if logs:
        return path, logs
    whole = path.absolute()
    name = parse_log_directory_name(whole.name)
    if name is None or not (_has_log_files(path) or (whole.parent / META_PROPERTIES).exists()):
        raise CommandError(
            f"{path}: neither a data directory, it has no {META_PROPERTIES}, nor the directory of a partition",
            ExitCode.NOT_FOUND,
        )
    return whole.parent, [(str(path), name)]


def _has_log_files(directory: Path) -> bool:
    """Whether there is any file of a log, a segment's or another: many directories have names like a partition's."""
    own = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)
    return any(each.name in own or parse_offset_file_name(each.name) is not None for each in directory.iterdir())


@contextmanager
def _left_alone(directory: Path) -> Iterator[None]:
    """Nobody writes to a data directory meanwhile: a broker, Ottla's or Kafka's, holds a lock on a file in it."""
    try:
        fd = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        try:
            # Ottla's lock and Kafka's are of two kinds, which Linux keeps apart.
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise CommandError(f"{directory} is used by a running broker: stop it first") from error
        yield
    finally:
        os.close(fd)


def _show_directory(directory: Path, state: "DirectoryState", as_json: bool) -> None:
    if not state.findings:
        return
    if as_json:
        _echo_json({"directory": str(directory), "damaged": True} | _json_of(state.findings))
    else:
        click.echo(printable(f"{directory}: DAMAGED"))
        _show_findings(state.findings)


def _show_log(path: str, verified: "VerifiedLog", as_json: bool) -> None:
    if as_json:
        row = {
            "log": path,
            "topic": verified.topic_partition.topic,
            "partition": verified.topic_partition.partition,
            "damaged": verified.is_damaged,
            "segments": verified.segments,
            "bytes": verified.size,
            "batches": verified.batches,
            "start_offset": verified.start_offset,
            "end_offset": verified.end_offset,
            "missing_offsets": verified.missing,
        }
        _echo_json(row | _json_of(verified.findings))
        return
    missing = f", {verified.missing} offsets missing between them" if verified.missing else ""
    segments = "1 segment" if verified.segments == 1 else f"{verified.segments} segments"
    click.echo(
        printable(
            f"{path}: {'DAMAGED' if verified.is_damaged else 'sound'}, offsets {verified.start_offset} to "
            f"{verified.end_offset}{missing}, {segments}, {verified.batches} batches, {verified.size} bytes"
        )
    )
    _show_findings(verified.findings)


def _show_findings(findings: "Iterable[Finding]") -> None:
    for finding in findings:
        click.echo(printable(f"  {'damage' if finding.is_damage else 'note'}  {finding}"))


def _json_of(findings: "Iterable[Finding]") -> dict[str, Any]:
    by_kind: dict[str, list[dict[str, Any]]] = {"damage": [], "notes": []}
    for each in findings:
        row = {"file": each.file, "position": each.position, "reason": each.reason}
        by_kind["damage" if each.is_damage else "notes"].append(row)
    return by_kind


def _echo_json(row: dict[str, Any]) -> None:
    click.echo(printable(json.dumps(row, ensure_ascii=False)))
