"""Disks that are full, may not be written, or fail: what a broker does then, and afterwards."""

import errno
import time
from pathlib import Path

from chaos.faulty_disk import FaultyDisk
from chaos.loop_image import LoopImage
from chaos.stage import Stage, TroubleOutcome, stage

IMAGE_MB = 64
NO_WRITES = "is read-only"
WRITES_AGAIN = "is writable again"
OFFLINE = "writes fail until the broker is restarted"
STORAGE_ERROR = "KAFKA_STORAGE_ERROR"


def full_disk(root: Path, trouble_s: float = 3) -> TroubleOutcome:
    """No room for a while, then room again. Needs an image. Raises LoopImageError where there is none."""
    outcome = TroubleOutcome("full disk")
    image = LoopImage(root / "full-disk", IMAGE_MB)
    with image, stage(outcome, image.mount_point / "full-disk-data", root) as at_work:
        ballast = image.fill()
        at_work.wait_for_line(NO_WRITES)
        _look_while_refused(at_work, trouble_s)
        ballast.unlink()
        _look_when_it_passed(at_work)
    return outcome


def read_only_disk(root: Path, trouble_s: float = 3) -> TroubleOutcome:
    """Writes are refused for a while as on a disk that is mounted read-only, then not. Raises CompilerError."""
    outcome = TroubleOutcome("read-only disk")
    disk = FaultyDisk(root)
    with stage(outcome, root / "read-only-disk", root, disk.environment) as at_work:
        disk.fail("/read-only-disk/", errno.EROFS, "write")
        at_work.wait_for_line(NO_WRITES)
        _look_while_refused(at_work, trouble_s)
        disk.heal()
        _look_when_it_passed(at_work)
    return outcome


def remounted_disk(root: Path, trouble_s: float = 3) -> TroubleOutcome:
    """The file system turns itself read-only; its journal is gone, so it is mounted anew and the broker started again.

    Needs an image. Raises LoopImageError where there is none.
    """
    outcome = TroubleOutcome("file system turned read-only")
    image = LoopImage(root / "remounted", IMAGE_MB)
    with image, stage(outcome, image.mount_point / "remounted-data", root) as at_work:
        image.turn_read_only()
        at_work.wait_for_line("data directory")
        _look_while_refused(at_work, trouble_s)
        outcome.facts["lines in the log"] = len(at_work.log_lines("data directory"))
        at_work.broker.kill()
        image.mount_again()
        at_work.broker.start()
        outcome.facts["seconds from the restart to the next write"] = round(at_work.wait_for_writes(), 2)
        at_work.settle()
    return outcome


def failing_disk(root: Path, call: str, trouble_s: float = 1.5) -> TroubleOutcome:
    """`call`, write or sync, fails once with EIO: writes stay refused until a restart. Raises CompilerError."""
    outcome = TroubleOutcome(f"EIO from {call}")
    disk = FaultyDisk(root)
    with stage(outcome, root / f"failing-{call}", root, disk.environment) as at_work:
        _fail_until_restart(at_work, disk, errno.EIO, call, trouble_s)
    return outcome


def aborted_journal(root: Path, trouble_s: float = 1.5) -> TroubleOutcome:
    """The journal is aborted and syncs say nothing of it, as ext4's may: nothing more is acknowledged until a restart.

    Needs an image. Raises CompilerError, LoopImageError where there is none.
    """
    outcome = TroubleOutcome("journal aborted")
    disk, image = FaultyDisk(root), LoopImage(root / "journal", IMAGE_MB)
    with image, stage(outcome, image.mount_point / "journal-data", root, disk.environment) as at_work:
        _fail_until_restart(at_work, disk, errno.EROFS, "journal", trouble_s)
    return outcome


def _fail_until_restart(at_work: Stage, disk: FaultyDisk, error: int, call: str, trouble_s: float) -> None:
    outcome = at_work.outcome
    disk.fail("/load-confluent-0/", error, call)
    at_work.wait_for_line(OFFLINE)
    disk.heal()
    _look_while_refused(at_work, trouble_s)
    at_work.broker.kill()
    # Others that are refused because of it may repeat it as their reason.
    said = [line for line in at_work.log_lines(OFFLINE) if "server.disk_watch" in line]
    outcome.facts["lines"] = len(said)
    outcome.expect(len(said) == 1, f"the broker said {len(said)} times that it is offline")
    at_work.broker.start()
    outcome.facts["seconds from the restart to the next write"] = round(at_work.wait_for_writes(), 2)
    at_work.settle()


def _look_while_refused(at_work: Stage, trouble_s: float) -> None:
    outcome = at_work.outcome
    error = at_work.produce_error()
    outcome.facts["produce"] = error
    outcome.expect(error == STORAGE_ERROR, f"produce ends with {error}, not with {STORAGE_ERROR}")
    outcome.facts["records read meanwhile"] = at_work.read_everything()
    outcome.expect(outcome.facts["records read meanwhile"] != 0, "nothing could be read meanwhile")
    outcome.facts["topic creation"] = at_work.create_topic_error("made-meanwhile") or "acknowledged"
    time.sleep(trouble_s)
    again = at_work.produce_error()
    outcome.expect(again == STORAGE_ERROR, f"produce ends with {again} after {trouble_s} s")


def _look_when_it_passed(at_work: Stage) -> None:
    outcome = at_work.outcome
    at_work.wait_for_line(WRITES_AGAIN)
    outcome.facts["seconds to the next write"] = round(at_work.wait_for_writes(), 2)
    error = at_work.produce_error()
    outcome.expect(error is None, f"produce still ends with {error}")
    if outcome.facts["topic creation"] == "acknowledged":
        error = at_work.produce_error("made-meanwhile")
        outcome.expect(error is None, f"produce to the topic made meanwhile ends with {error}")
    lines = len(at_work.broker.log_path.read_text().splitlines())
    outcome.facts["lines in the log"] = lines
    outcome.expect(lines < 60, f"{lines} lines in the log")
    at_work.settle()
