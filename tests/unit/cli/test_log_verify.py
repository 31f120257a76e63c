"""`ottla log verify` finds what is not as it was written, and nothing else. The files are those of a real log."""

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.cli.exit_codes import ExitCode
from ottla.cli.main import run
from ottla.storage.log_config import LogConfig
from tests.unit.storage.data_directory import NOW_MS, OpenDirectory, batch, opened
from tests.unit.storage.transactional_log import ABORT, COMMIT, append, committed, marker
from tests.unit.storage.transactional_log import data as data_of

CONFIG = LogConfig(segment_bytes=3_000, index_interval_bytes=300)


async def write(directory: OpenDirectory, config: LogConfig = CONFIG) -> None:
    """Three segments: two of 24 and 24 records, and one that grows."""
    log = await directory.log(config)
    for number in range(28):
        epoch = 0 if number < 20 else 3
        await directory.append_all(
            log,
            [batch(2, value=b"v" * 100, timestamp=NOW_MS + number, producer_id=7, epoch=0, sequence=2 * number)],
            epoch=epoch,
        )


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    """A data directory that was closed, without the lock of this process."""
    path = tmp_path / "data"
    async with opened(path) as directory:
        await write(directory)
    return path


def segments(data: Path) -> list[Path]:
    return sorted((data / "orders-0").glob("*.log"))


def verified(path: Path, capsys: pytest.CaptureFixture[str], expected: ExitCode = ExitCode.OK) -> list[dict[str, Any]]:
    assert run(["log", "verify", "--json", str(path)]) == expected
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def look_of(data: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in data.rglob("*")}


async def test_what_a_broker_left_is_sound_and_stays_as_it_is(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = look_of(data)
    (row,) = verified(data, capsys)
    assert look_of(data) == before
    assert (row["damaged"], row["damage"], row["notes"]) == (False, [], [])
    assert (row["topic"], row["partition"], row["start_offset"], row["end_offset"]) == ("orders", 0, 0, 56)
    assert (row["segments"], row["batches"], row["missing_offsets"]) == (len(segments(data)), 28, 0)
    assert row["segments"] > 2
    assert row["bytes"] == sum(path.stat().st_size for path in segments(data))
    assert run(["log", "verify", str(data / "orders-0")]) == ExitCode.OK
    assert "orders-0: sound, offsets 0 to 56" in capsys.readouterr().out


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def overwrite(path: Path, position: int, piece: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(piece)


def spoil_batch(data: Path) -> tuple[str, int | None, str]:
    flip(segments(data)[0], 90)
    return segments(data)[0].name, 0, "CRC"


def repeat_batch(data: Path) -> tuple[str, int | None, str]:
    first = segments(data)[0]
    content = first.read_bytes()
    size = 12 + int.from_bytes(content[8:12], "big")
    overwrite(first, size, content[:size])
    return first.name, size, "offset 0 comes after offset 1"


def cut_closed_segment(data: Path) -> tuple[str, int | None, str]:
    first = segments(data)[0]
    size = 12 + int.from_bytes(first.read_bytes()[8:12], "big")
    os.truncate(first, 2 * size - 1)
    return first.name, size, "ends inside a batch"


def lengthen_closed_segment_by_zeros(data: Path) -> tuple[str, int | None, str]:
    first = segments(data)[0]
    size = first.stat().st_size
    os.truncate(first, size + 4_096)
    return first.name, size, ""


def overlap_next_segment(data: Path) -> tuple[str, int | None, str]:
    first, second, *_ = segments(data)
    last = 0
    content = first.read_bytes()
    while last + 12 + int.from_bytes(content[last + 8 : last + 12], "big") < len(content):
        last += 12 + int.from_bytes(content[last + 8 : last + 12], "big")
    base = int(second.stem)
    overwrite(first, last, struct.pack(">q", base))
    return first.name, last, f"belongs into the segment that begins at {base}"


def misplace_index_entry(data: Path) -> tuple[str, int | None, str]:
    index = segments(data)[0].with_suffix(".index")
    offset, position = struct.unpack_from(">ii", index.read_bytes(), 8)
    overwrite(index, 8, struct.pack(">ii", offset, position + 1))
    return index.name, 8, "no batch begins at byte"


def turn_index_back(data: Path) -> tuple[str, int | None, str]:
    index = segments(data)[0].with_suffix(".index")
    overwrite(index, 8, index.read_bytes()[:8])
    return index.name, 8, "goes back"


def tear_index(data: Path) -> tuple[str, int | None, str]:
    index = segments(data)[0].with_suffix(".index")
    os.truncate(index, index.stat().st_size - 3)
    return index.name, index.stat().st_size // 8 * 8, "ends inside an entry"


def date_time_index_wrong(data: Path) -> tuple[str, int | None, str]:
    index = segments(data)[0].with_suffix(".timeindex")
    overwrite(index, 0, struct.pack(">q", NOW_MS))
    return index.name, 0, f"not {NOW_MS}"


def shorten_time_index(data: Path) -> tuple[str, int | None, str]:
    index = segments(data)[0].with_suffix(".timeindex")
    os.truncate(index, index.stat().st_size - 12)
    return index.name, None, "its last entry is of"


def rewrite_epochs(data: Path) -> tuple[str, int | None, str]:
    (data / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 50\n")
    return "leader-epoch-checkpoint", None, "offset 40 was written in epoch 3, which the file has as 0"


def spoil_epochs(data: Path) -> tuple[str, int | None, str]:
    (data / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n")
    return "leader-epoch-checkpoint", None, "announced"


def spoil_snapshot(data: Path) -> tuple[str, int | None, str]:
    snapshot = max((data / "orders-0").glob("*.snapshot"))
    flip(snapshot, 20)
    return snapshot.name, None, "checksum"


def spoil_identity(data: Path) -> tuple[str, int | None, str]:
    (data / "orders-0" / "partition.metadata").write_text("version: 0\n")
    return "partition.metadata", None, "topic_id"


def lose_the_end(data: Path) -> tuple[str, int | None, str]:
    segments(data)[-1].unlink()
    return "recovery-point-offset-checkpoint", None, "was on disk up to offset 56"


@pytest.mark.parametrize(
    "damage",
    [
        spoil_batch,
        repeat_batch,
        lengthen_closed_segment_by_zeros,
        cut_closed_segment,
        overlap_next_segment,
        misplace_index_entry,
        turn_index_back,
        tear_index,
        date_time_index_wrong,
        shorten_time_index,
        rewrite_epochs,
        spoil_epochs,
        spoil_snapshot,
        spoil_identity,
        lose_the_end,
    ],
)
async def test_damage_is_named_by_file_place_and_reason(
    data: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], tuple[str, int | None, str]]
) -> None:
    file, position, reason = damage(data)
    (row,) = verified(data, capsys, ExitCode.FAILED)
    assert row["damaged"]
    found = [each for each in row["damage"] if each["file"] == file and reason in each["reason"]]
    assert [each["position"] for each in found] == [position], row["damage"]
    assert run(["log", "verify", str(data)]) == ExitCode.FAILED
    captured = capsys.readouterr()
    assert f"damage  {file}" in captured.out
    assert captured.err == f"ottla: {data}/orders-0 is damaged\n"


async def test_what_a_kill_leaves_is_a_note_and_not_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data"
    async with opened(path) as directory:
        await write(directory)
        shutil.copytree(path, tmp_path / "killed")
    killed = tmp_path / "killed"
    newest = segments(killed)[-1]
    size = newest.stat().st_size
    with newest.open("ab") as file:
        file.write(newest.read_bytes()[:100])
    newest.with_suffix(".index").unlink()
    (row,) = verified(killed, capsys)
    assert [(note["file"], note["position"]) for note in row["notes"]] == [(newest.name, size)]
    assert "the next start cuts" in row["notes"][0]["reason"]

    (killed / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 56\n")
    flip(newest, 80)
    verified(killed, capsys, ExitCode.FAILED)


async def test_a_torn_end_in_a_directory_that_was_closed_is_damage(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with segments(data)[-1].open("ab") as file:
        file.write(b"torn")
    (row,) = verified(data, capsys, ExitCode.FAILED)
    assert "ends inside a batch" in row["damage"][0]["reason"]


async def test_room_that_kafka_reserves_is_not_damage(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = segments(data)[-1]
    size = newest.stat().st_size
    for path, room in (
        (newest, 1 << 16),
        (newest.with_suffix(".index"), 800),
        (newest.with_suffix(".timeindex"), 1200),
    ):
        os.truncate(path, path.stat().st_size + room)
    (row,) = verified(data, capsys)
    assert [(note["file"], note["position"]) for note in row["notes"]] == [(newest.name, size)]


async def test_leftovers_and_a_missing_index_are_notes(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = segments(data)[0]
    first.with_suffix(".index").unlink()
    (data / "orders-0" / f"{first.name}.deleted").touch()
    (row,) = verified(data, capsys)
    assert [note["file"] for note in row["notes"]] == [f"{first.stem}.index", f"{first.name}.deleted"]


async def test_a_compacted_log_is_sound_and_its_gaps_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data"
    async with opened(path) as directory:
        await write(directory, replace(CONFIG, cleanup_policy=frozenset({"compact"})))
        result = await directory.manager.cleaner.run_once()
        assert result is not None
    (row,) = verified(path, capsys)
    assert not row["damaged"]
    assert row["missing_offsets"] > 20


async def test_a_directory_that_a_broker_uses_is_not_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data"
    async with opened(path) as directory:
        await directory.log()
        for each in (path, path / "orders-0"):
            assert run(["log", "verify", str(each)]) == ExitCode.FAILED
            assert "is used by a running broker" in capsys.readouterr().err


async def test_a_checkpoint_that_is_none_is_said_of_the_directory(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "replication-offset-checkpoint").write_text("?")
    directory, log = verified(data, capsys, ExitCode.FAILED)
    assert [each["file"] for each in directory["damage"]] == ["replication-offset-checkpoint"]
    assert not log["damaged"]


async def test_an_index_full_of_wrong_entries_is_not_listed_whole(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = segments(data)[0].with_suffix(".index")
    index.write_bytes(struct.pack(">ii", 5, 7) * 5_000)
    (row,) = verified(data, capsys, ExitCode.FAILED)
    assert len(row["damage"]) == 101


def test_what_is_no_data_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    assert run(["log", "verify", str(tmp_path / "none")]) == ExitCode.NOT_FOUND
    assert run(["log", "verify", str(tmp_path / "empty")]) == ExitCode.NOT_FOUND
    assert run(["log", "verify", str(tmp_path / "file")]) == ExitCode.USAGE
    assert capsys.readouterr().err.count("\n") == 3


async def write_transactions(path: Path, *, compacts: bool = False) -> None:
    """Aborted and committed transactions over several segments, and one that is open."""
    config = replace(CONFIG, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
    async with opened(path) as directory:
        log = await directory.log(config)
        for number in range(20):
            append(directory, log, data_of(7, b"v" * 100))
            append(directory, log, data_of(8, b"v" * 100))
            append(directory, log, marker(7, ABORT if number % 2 else COMMIT))
            append(directory, log, marker(8, ABORT))
        append(directory, log, data_of(9, b"open"))
        await committed(log)
        if compacts:
            assert await directory.manager.cleaner.run_once() is not None


@pytest.mark.parametrize("compacts", [False, True])
async def test_transaction_indexes_that_say_what_the_batches_say_are_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], compacts: bool
) -> None:
    await write_transactions(tmp_path / "data", compacts=compacts)
    assert list((tmp_path / "data" / "orders-0").glob("*.txnindex"))
    (row,) = verified(tmp_path / "data", capsys)
    assert row["damage"] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content[34:], "was aborted and is not entered"),
        (lambda content: b"", "was aborted and is not entered"),
        (lambda content: content[:-1], "no whole number of entries"),
        (lambda content: content[34:] + content[:34], "cannot come after one that ended"),
        (lambda content: content[:9] + b"\x63" + content[10:], "there is no marker at offset"),
        (lambda content: content[:17] + b"\x7f" + content[18:], "cannot come after one that ended"),
    ],
    ids=["first", "all", "torn", "order", "producer", "offset"],
)
@pytest.mark.parametrize("which", [0, -1])
async def test_a_transaction_index_that_says_something_else_is_damage(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    which: int,
    change: Callable[[bytes], bytes],
    said: str,
) -> None:
    path = tmp_path / "data"
    await write_transactions(path)
    file = sorted((path / "orders-0").glob("*.txnindex"))[which]
    file.write_bytes(change(file.read_bytes()))
    (row,) = verified(path, capsys, ExitCode.FAILED)
    assert {each["file"] for each in row["damage"]} == {file.name}
    assert said in row["damage"][0]["reason"]


async def test_a_log_that_nothing_was_written_to_is_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with opened(tmp_path / "data") as directory:
        await directory.log()
    assert not list((tmp_path / "data" / "orders-0").glob("*.log"))
    (row,) = verified(tmp_path / "data", capsys)
    assert row["damage"] == []


async def test_a_checkpoint_that_kafka_has_not_written_yet_is_not_damage(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("cleaner-offset-checkpoint", "log-start-offset-checkpoint"):
        (data / name).write_bytes(b"")
    (row,) = verified(data, capsys)
    assert not row["damaged"]


def test_directories_whose_names_are_like_those_of_partitions_are_no_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As /etc/dbus-1 is."""
    (tmp_path / "dbus-1").mkdir()
    (tmp_path / "dbus-1" / "session.conf").touch()
    for path in (tmp_path, tmp_path / "dbus-1"):
        assert run(["log", "verify", str(path)]) == ExitCode.NOT_FOUND
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"ottla: {path}: neither a data directory, it has no meta.properties, nor")


async def test_what_is_no_log_beside_logs_is_not_checked(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "meta.properties").unlink(missing_ok=True)
    (data / "backup-1").mkdir()
    assert [each["log"] for each in verified(data, capsys)] == [str(data / "orders-0")]
