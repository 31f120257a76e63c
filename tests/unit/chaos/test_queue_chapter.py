"""What the chaos of queues makes of its rounds."""

from chaos.queue_chapter import FAULTS, FAULTS_ALONE, Progress, QueueReport, QueueRound
from ottla.simulation.history import Outcome
from ottla.simulation.share_history import Delivery, Settlement, ShareHistory


def test_leaders_of_records_and_of_state_are_hit_alone_and_together() -> None:
    assert set(FAULTS) == {
        f"{what} of the leader of {of}"
        for what in ("kill -9", "pause", "stop", "cut", "move")
        for of in ("records", "state", "both")
    }
    assert set(FAULTS_ALONE) == {
        f"{what} of the only broker" for what in ("kill -9", "kill -9 and again", "pause", "stop")
    }


def test_a_report_counts_rounds_by_fault_and_says_the_slowest() -> None:
    report = QueueReport(
        "a share group", 1, [QueueRound(0, "a", 2.0), QueueRound(1, "a", 3.0), QueueRound(2, "b", 1.0)]
    )
    told = report.as_json()
    assert told["rounds"] == 3
    assert told["faults"] == {"a": 2, "b": 1}
    assert told["seconds until done, at most"] == {"a": 3.0, "b": 1.0}


def test_what_is_accepted_or_was_delivered_for_the_last_time_is_done() -> None:
    history = ShareHistory(deliveries_max=2)
    progress = Progress(history)
    assert progress.look() == set()
    for offset, count in ((0, 1), (1, 1), (2, 2)):
        history.deliveries.append(Delivery("one", (("t", 0), offset), f"v{offset}", count, 1.0, 2.0))
    history.settlements.append(Settlement("one", (("t", 0), 0), True, Outcome.UNKNOWN, 3.0, 4.0))
    history.settlements.append(Settlement("one", (("t", 0), 1), True, Outcome.FAIL, 3.0, 4.0))
    assert progress.look() == {"v0", "v2"}
    history.settlements.append(Settlement("one", (("t", 0), 1), True, Outcome.OK, 5.0, 6.0))
    assert progress.look() == {"v0", "v1", "v2"}


def test_a_report_has_each_round_and_counts_over_all_chapters() -> None:
    report = QueueReport("a queue", 1, [QueueRound(0, "cut", 2.5, {"bucket files": 3})])
    report.add({"records": 2})
    report.counts["late at most, ms"] = 7
    report.add({"records": 3})
    found = report.as_json()
    assert found["each"] == [{"number": 0, "fault": "cut", "done_s": 2.5, "facts": {"bucket files": 3}, "moved": None}]
    assert found["counts"] == {"records": 5, "late at most, ms": 7}


def test_rounds_are_counted_by_the_leaders_that_moved_and_lateness_has_percentiles() -> None:
    rounds = [QueueRound(number, "move", 1.0, moved=moved) for number, moved in enumerate((2, 0, 2, None))]
    report = QueueReport("a queue", 1, rounds, late_ms={"after pause": [*range(100, 0, -1)]})
    told = report.as_json()
    assert told["rounds by the leaders that moved"] == {"0": 1, "2": 2}
    assert told["late, ms"] == {"after pause": {"records": 100, "p50": 51, "p99": 100, "max": 100}}
