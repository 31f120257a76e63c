"""What lies in files is shown as it lies there."""

import json
import struct

import pytest

from ottla.cli.exit_codes import ExitCode
from ottla.cli.log_files import rows
from ottla.cli.main import run
from ottla.native import build_batch
from ottla.protocol.coordinator_record import encode_key, encode_value
from ottla.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.records.control import ControlRecordType, encode_control_key

LOG = "00000000000000000010.log"


def directory(tmp_path, name="events-3"):
    made = tmp_path / name
    made.mkdir()
    return made


def dumped(path, *flags, capsys):
    assert run(["log", "dump", "--json", *flags, str(path)]) == ExitCode.OK
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_batches_are_shown_with_their_places_and_numbers(tmp_path, capsys):
    first = build_batch([(1_000, b"k", b"v", ()), (2_000, None, b"w", ())], base_offset=10, codec=4)
    second = build_batch(
        [(3_000, None, b"x", ())], base_offset=12, producer_id=7, producer_epoch=1, base_sequence=5, leader_epoch=2
    )
    (directory(tmp_path) / LOG).write_bytes(first + second)
    one, two = dumped(tmp_path / "events-3" / LOG, capsys=capsys)
    assert (one["base_offset"], one["last_offset"], one["record_count"], one["codec"]) == (10, 11, 2, "zstd")
    assert (one["position"], one["size"], two["position"]) == (0, len(first), len(first))
    assert (one["max_timestamp"], one["producer_id"]) == (2_000, -1)
    assert (two["producer_id"], two["base_sequence"], two["leader_epoch"]) == (7, 5, 2)


def test_records_are_shown_when_asked_for(tmp_path, capsys):
    log = directory(tmp_path) / LOG
    log.write_bytes(build_batch([(1_000, b"k", b"\xff", [("h", b"1")]), (2_000, None, None, ())], base_offset=10))
    _, one, two = dumped(log, "--records", capsys=capsys)
    assert (one["offset"], one["key"], one["value"], one["headers"]) == (10, "k", {"base64": "/w=="}, [["h", "1"]])
    assert (two["offset"], two["key"], two["value"]) == (11, None, None)


def test_a_log_longer_than_what_is_read_at_once_is_shown_whole(tmp_path):
    log = directory(tmp_path) / LOG
    batches = [build_batch([(0, None, b"x" * 900_000, ())], base_offset=10 + number) for number in range(12)]
    big = build_batch([(0, None, b"x" * 9_000_000, ())], base_offset=22)
    log.write_bytes(b"".join(batches) + big)
    found = list(rows(log, records=False))
    assert [row["base_offset"] for row in found] == list(range(10, 23))
    assert found[-1]["position"] + found[-1]["size"] == log.stat().st_size


@pytest.mark.parametrize(
    ("spoil", "reason"), [(lambda log: log[:-1], "ends in the middle of a batch"), (lambda log: log[:-1] + b"?", "CRC")]
)
def test_damage_is_shown_with_its_place_and_ends_with_1(tmp_path, capsys, spoil, reason):
    good = build_batch([(0, None, b"a", ())], base_offset=10)
    log = directory(tmp_path) / LOG
    log.write_bytes(good + spoil(bytes(build_batch([(0, None, b"b", ())], base_offset=11))))
    assert run(["log", "dump", str(log)]) == ExitCode.FAILED
    captured = capsys.readouterr()
    assert "10..10" in captured.out
    assert f"damaged at byte {len(good)}" in captured.out
    assert reason in captured.err


def test_markers_of_transactions_are_named(tmp_path, capsys):
    log = directory(tmp_path) / LOG
    marker = [(9, encode_control_key(ControlRecordType.ABORT), bytes(6), ())]
    log.write_bytes(
        build_batch(marker, base_offset=10, producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    )
    batch, control = dumped(log, "--records", capsys=capsys)
    assert (batch["control"], batch["transactional"]) == (True, True)
    assert (control["kind"], control["type"], control["offset"]) == ("control", "abort", 10)


def test_records_of_internal_topics_are_shown_by_their_fields(tmp_path, capsys):
    log = directory(tmp_path, "__consumer_offsets-7") / LOG
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=2))
    value = encode_value(OffsetCommitValue(offset=55), 3)
    log.write_bytes(build_batch([(0, key, value, ()), (0, key, None, ()), (0, b"other", b"x", ())], base_offset=10))
    _, commit, tombstone, other = dumped(log, "--records", capsys=capsys)
    assert commit["record_type"] == "OffsetCommit"
    assert commit["key"] == {"group": "g", "topic": "t", "partition": 2}
    assert commit["value"]["offset"] == 55
    assert tombstone["value"] is None
    assert other["key"] == "other"


def test_indexes_are_shown_up_to_their_preallocated_rest(tmp_path, capsys):
    place = directory(tmp_path)
    (place / "00000000000000000010.index").write_bytes(struct.pack(">iiii", 5, 100, 9, 300) + bytes(80))
    (place / "00000000000000000010.timeindex").write_bytes(struct.pack(">qi", 1_000, 5) + bytes(120))
    found = dumped(place, capsys=capsys)
    assert [(row["offset"], row["position"]) for row in found if row["kind"] == "offset"] == [(15, 100), (19, 300)]
    assert [(row["timestamp"], row["offset"]) for row in found if row["kind"] == "time"] == [(1_000, 15)]


def test_checkpoints_and_properties_are_shown(tmp_path, capsys):
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nevents 3 42\n")
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=abc\n")
    place = directory(tmp_path)
    (place / "leader-epoch-checkpoint").write_text("0\n1\n4 100\n")
    found = dumped(tmp_path, capsys=capsys)
    assert {"topic": "events", "partition": 3, "offset": 42}.items() <= next(
        row for row in found if "topic" in row
    ).items()
    assert any(row.get("leader_epoch") == 4 and row["start_offset"] == 100 for row in found)
    assert any(row.get("name") == "cluster.id" and row["value"] == "abc" for row in found)


def test_an_empty_segment_is_nothing(tmp_path, capsys):
    log = directory(tmp_path) / LOG
    log.touch()
    assert dumped(log, capsys=capsys) == []


def test_only_so_many_lines_as_asked_for(tmp_path, capsys):
    log = directory(tmp_path) / LOG
    log.write_bytes(b"".join(build_batch([(0, None, b"x", ())], base_offset=10 + number) for number in range(9)))
    assert len(dumped(log, "--limit", "3", capsys=capsys)) == 3


def test_what_is_no_log_file_is_refused(tmp_path, capsys):
    other = tmp_path / "notes.txt"
    other.touch()
    assert run(["log", "dump", str(other)]) == ExitCode.USAGE
    assert run(["log", "dump", str(tmp_path)]) == ExitCode.NOT_FOUND
    assert run(["log", "dump", str(tmp_path / "none")]) == ExitCode.NOT_FOUND
    assert capsys.readouterr().err.count("\n") == 3


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_what_a_producer_wrote_does_not_steer_the_terminal(tmp_path, capsys, flags):
    log = directory(tmp_path) / LOG
    log.write_bytes(build_batch([(0, b"\x1b[2J", b"a\xc2\x9b", [("\x1b]0;\n", b"\x7f")])], base_offset=10))
    assert run(["log", "dump", "--records", *flags, str(log)]) == ExitCode.OK
    assert all(line.isprintable() for line in capsys.readouterr().out.split("\n"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("leader-epoch-checkpoint", b"0\n1\nx 7\n"),
        ("recovery-point-offset-checkpoint", b"0\n1\norders 0 many\n"),
        ("meta.properties", b"cluster.id=\xff\n"),
        ("00000000000000000010.snapshot", b"\0\1"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_named_and_the_others_are_shown(tmp_path, capsys, name, content):
    place = directory(tmp_path)
    (place / name).write_bytes(content)
    (place / "zz").mkdir()
    (place / "zz" / LOG).write_bytes(build_batch([(0, None, b"v", ())], base_offset=10))
    assert run(["log", "dump", str(place)]) == ExitCode.FAILED
    captured = capsys.readouterr()
    assert "10..10" in captured.out
    assert f"{place / name}: " in captured.err
    assert "bug" not in captured.err


def test_room_ahead_of_the_end_of_a_log_is_not_damage(tmp_path, capsys):
    log = directory(tmp_path) / LOG
    batch = build_batch([(0, None, b"x", ())], base_offset=10)
    log.write_bytes(batch + bytes(5_000_000))
    assert [row["base_offset"] for row in dumped(log, capsys=capsys)] == [10]
    log.write_bytes(batch + bytes(5_000_000) + b"x")
    assert run(["log", "dump", str(log)]) == ExitCode.FAILED
