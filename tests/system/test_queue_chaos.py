"""A short form of `python -m chaos share nsq`, and that it finds a fault that is planted in the brokers."""

from pathlib import Path
from random import Random

import pytest

from chaos.nsq_channel import run_channel
from chaos.planted import planted_in
from chaos.queue_chapter import BROKER_SETTINGS, REPLICATED, QueueReport, run_chapter
from chaos.share_group import SHARED
from tests.cluster import Cluster


def test_acknowledgements_that_are_answered_and_not_stored_are_found(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1, BROKER_SETTINGS)
    cluster.brokers[1].environment = planted_in(tmp_path, "share-not-written")
    found = run_chapter(
        cluster, SHARED, ["kill -9 of the only broker"], Random(4), QueueReport("a share group", 4), lambda *_: None
    )
    assert any(each.startswith("delivered again: jobs-") for each in found)


@pytest.mark.long
def test_what_a_member_was_told_is_done_is_done_whatever_happens_to_those_who_lead(tmp_path: Path) -> None:
    report = QueueReport("a share group", 4)
    cluster = Cluster(tmp_path, 3, BROKER_SETTINGS | REPLICATED)
    faults = [f"{deed} of the leader of {of}" for deed, of in (("kill -9", "both"), ("pause", "records"))]
    assert run_chapter(cluster, SHARED, faults, Random(4), report, lambda *_: None) == []
    assert report.counts["deliveries after the first"] > 0


@pytest.mark.long
def test_a_finished_message_stays_finished_whoever_of_three_brokers_is_killed(tmp_path: Path) -> None:
    report = QueueReport("an NSQ channel", 4)
    faults = [f"kill -9 of the leader of {of}" for of in ("records", "state")]
    assert run_channel(tmp_path, faults, Random(4), report, lambda *_: None) == []
    assert report.counts["settlements answered"] > 0
