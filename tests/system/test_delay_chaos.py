"""That `python -m chaos delays` finds a mistake which is planted in the brokers."""

from pathlib import Path
from random import Random

import pytest

from chaos.delay_brokers import with_little_memory
from chaos.delay_topic import SETTINGS, run_delay_chapter
from chaos.delay_work import KINDS
from chaos.planted import planted_in
from chaos.queue_chapter import QueueReport
from tests.cluster import Cluster


@pytest.mark.long
def test_records_that_are_delivered_once_more_are_found(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1, SETTINGS)
    cluster.brokers[1].environment = with_little_memory(tmp_path, planted_in(tmp_path, "delays-progress-forgotten"))
    report = QueueReport("a delay topic", 4)
    found = run_delay_chapter(cluster, ["kill -9 of the only broker"], KINDS, Random(4), report, lambda *_: None)
    assert any(each.startswith("came 2 times: ") for each in found)
