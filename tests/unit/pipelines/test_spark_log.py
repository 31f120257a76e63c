"""What Spark's processes say is kept, the newest of it, in files that do not grow without end."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines import spark_log
from ottla.pipelines.spark_log import SparkLog

LINES = 400
WRITER = f"import sys; [print('line', n, file=(sys.stdout, sys.stderr)[n % 2], flush=True) for n in range({LINES})]"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, the thread comes to the end of the pipe."""
    monkeypatch.setattr(spark_log, "_LAST_WORDS_SECONDS", None)


def run(log: SparkLog, program: str) -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", program], stdout=log.fileno(), stderr=log.fileno())
    log.hand_over()
    assert process.wait() == 0
    log.close()


def test_both_streams_of_a_process_are_in_one_file_in_their_order(tmp_path):
    log = tmp_path / "spark.log"
    log.write_text("of a run before\n")
    run(SparkLog(log), WRITER)
    assert log.read_text().splitlines() == ["of a run before", *(f"line {number}" for number in range(LINES))]
    assert [*tmp_path.iterdir()] == [log]


def test_the_newest_is_kept_in_so_many_files_of_so_many_bytes(tmp_path):
    log = tmp_path / "spark.log"
    older = [Path(f"{log}.{number}") for number in (1, 2)]
    kept = SparkLog(log, file_bytes=1000, older_files=2)
    # What a thread finds in a pipe is as much as it comes to; so this is without one.
    for number in range(LINES):
        kept._append(f"line {number}\n".encode())
    kept.close()
    assert sorted(tmp_path.iterdir()) == [log, *older]
    assert all(each.stat().st_size <= 1000 for each in (log, *older))
    lines = "".join(each.read_text() for each in (older[1], older[0], log)).splitlines()
    assert lines == [f"line {number}" for number in range(LINES - len(lines), LINES)]
    assert len(lines) > 2000 // len("line 9999\n")


def test_a_file_that_cannot_be_written_holds_nobody_up(tmp_path):
    log = tmp_path / "away" / "spark.log"
    run(SparkLog(log), WRITER)
    assert not log.parent.exists()


def test_a_file_that_was_removed_is_begun_again(tmp_path):
    path = tmp_path / "spark.log"
    log = SparkLog(path)
    log._append(b"one\n")
    path.unlink()
    log._append(b"two\n")
    log.close()
    assert path.read_text() == "two\n"


@pytest.mark.parametrize("times", [1, 2])
def test_a_log_that_no_process_was_given_ends(tmp_path, times):
    log = SparkLog(tmp_path / "spark.log")
    for _ in range(times):
        log.close()
    assert [*tmp_path.iterdir()] == []
