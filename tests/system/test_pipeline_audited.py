"""The audit is whole: where its topic is away at the end, and where a micro-batch runs again that its table has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.errors import RequestTimedOutError
from ottla.pipelines.audit.balance import balance_of
from ottla.pipelines.audit.publisher import Publisher
from ottla.pipelines.audit.report import Report, decode_report
from ottla.pipelines.runner.checkpoint import directory_of
from ottla.pipelines.session import Session
from ottla.pipelines.spec import read
from tests.broker_process import BrokerProcess
from tests.system.spark_session import pipeline_session
from tests.system.test_pipelines import Broker, run

pytestmark = pytest.mark.long

FILE = """
name = "whole"
checkpoints = "checkpoints"

[sources.events]
topics = ["whole.events"]
format = "json"
schema = "n int"
max_records = 10

[[sinks]]
name = "lake"
input = "events"
parquet = "lake"

[dead_letters]
topic = "whole.dead"

[audit]
topic = "whole.audit"
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with pipeline_session(tmp_path_factory.mktemp("spark")) as made:
        yield made


def test_reports_come_late_and_of_a_micro_batch_that_runs_again_and_are_the_same(
    session: Session, broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    there = Broker(broker.bootstrap)
    there.create("whole.events", "whole.dead", "whole.audit")
    there.produce("whole.events", [json.dumps({"n": n}).encode() for n in range(15)] + [b"bad"])
    file = tmp_path / "whole.toml"
    file.write_text(FILE)
    spec = read(file)

    refused: list[int] = []
    publish = Publisher.__call__

    def late(self: Publisher, report: Report) -> None:
        if report.batch == 1 and len(refused) < 5:
            refused.append(report.batch)
            raise RequestTimedOutError("the broker is busy")
        publish(self, report)

    monkeypatch.setattr(Publisher, "__call__", late)
    outcome, _ = run(session, spec, there)
    assert (outcome.failed, refused) == ([], [1] * 5)

    # As a driver that is killed right before it writes down that the micro-batch is done.
    (Path(directory_of(spec, spec.sinks[0])) / "commits" / "1").unlink()
    outcome, _ = run(session, spec, there)
    assert outcome.failed == []
    balance = balance_of(decode_report(message.value()) for message in there.consume("whole.audit"))
    assert (balance.findings, balance.batches, balance.repeated) == ([], 2, 1)
    (source,) = (each for each in balance.totals if each.step == "events")
    assert (source.rows["in"], source.rows["out"], source.rows["dead_letters"]) == (16, 15, 1)
