"""What the chaos of share groups makes of its rounds."""

from chaos.share_group import FAULTS, ShareReport, ShareRound


def test_leaders_of_records_and_of_state_are_killed_and_paused_alone_and_together() -> None:
    assert set(FAULTS) == {
        f"{what} of the leader of {of}" for what in ("kill -9", "pause") for of in ("records", "state", "both")
    }


def test_a_report_counts_rounds_by_fault_and_says_the_slowest() -> None:
    report = ShareReport(1, [ShareRound(0, "a", 2.0), ShareRound(1, "a", 3.0), ShareRound(2, "b", 1.0)])
    told = report.as_json()
    assert told["rounds"] == 3
    assert told["faults"] == {"a": 2, "b": 1}
    assert told["seconds until done, at most"] == {"a": 3.0, "b": 1.0}
