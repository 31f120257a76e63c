"""`ottla pipeline audit`, `diff` and `replay --promote` against a running broker; what Spark writes is made here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from ottla.cli.pipeline_replay import _create_topics
from ottla.pipelines.audit.publisher import Publisher
from ottla.pipelines.audit.report import Count, Report, SourceRange
from ottla.pipelines.replay.ranges import remember
from ottla.pipelines.replay.replayed import ReplayRange, replayed
from ottla.pipelines.spec import read
from tests.broker_process import BrokerProcess
from tests.committed_records import wait_until_ended
from tests.waiting_lines import ended

OTTLA = [sys.executable, "-m", "ottla.cli", "pipeline"]
DEADLINE_S = 60


class Pipeline:
    """A pipeline file, with topics of its own."""

    def __init__(self, broker: BrokerProcess, directory: Path) -> None:
        self.bootstrap = broker.bootstrap
        self.name = f"p-{uuid4().hex[:8]}"
        self.events, self.out, self.audit = (f"{self.name}-{what}" for what in ("events", "out", "audit"))
        self.directory = directory
        self.file = directory / "pipeline.toml"
        self.file.write_text(
            f"""
            name = "{self.name}"
            bootstrap = "{self.bootstrap}"
            [sources.events]
            topics = ["{self.events}"]
            group = "{self.name}"
            format = "json"
            schema = "carrier string"
            [[sinks]]
            name = "out"
            topic = "{self.out}"
            key = "carrier"
            [audit]
            topic = "{self.audit}"
            """
        )
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        topics = [NewTopic(self.events, 2), NewTopic(self.out, 2), NewTopic(f"{self.out}.v2", 1)]
        for made in admin.create_topics(topics).values():
            made.result()

    def write(self, topic: str, rows: Sequence[tuple[str, str]], *, commit: bool = True) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": topic, "log_level": 2})
        producer.init_transactions()
        producer.begin_transaction()
        for key, value in rows:
            producer.produce(topic, value, key)
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        wait_until_ended(self.bootstrap, topic)

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*OTTLA, command, str(self.file), *arguments],
            capture_output=True,
            text=True,
            env=os.environ,
            timeout=DEADLINE_S,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return ended(done)

    def committed(self) -> list[int]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.name})
        found = consumer.committed([TopicPartition(self.events, number) for number in range(2)])
        consumer.close()
        return [each.offset for each in found]


@pytest.fixture
def pipeline(broker: BrokerProcess, tmp_path: Path) -> Pipeline:
    return Pipeline(broker, tmp_path)


def test_what_a_replay_wrote_is_compared_with_production_key_by_key(pipeline: Pipeline):
    pipeline.write(pipeline.out, [("UA", '{"carrier":"UA","n":1}'), ("AA", '{"carrier":"AA","n":1}'), ("DL", "{}")])
    pipeline.write(pipeline.out, [("XX", "{}")], commit=False)
    side = f"{pipeline.out}.v2"
    pipeline.write(side, [("AA", '{"carrier":"AA","n":2}'), ("UA", '{"n":1,"carrier":"UA"}'), ("B6", "{}")])
    done = pipeline.run("diff", "--side", "v2", "--json")
    [found] = json.loads(done.stdout)
    assert done.returncode == 1
    counts = ("equal", "different", "only_here", "only_there", "rows_here", "rows_there")
    assert [found[name] for name in counts] == [0, 2, 1, 1, 3, 3]
    assert found["examples"]["only_there"] == [{"key": "DL", "here": None, "there": "{}"}]
    by_column = json.loads(pipeline.run("diff", "--side", "v2", "--key", "carrier", "--json").stdout)
    assert [by_column[0][name] for name in counts] == [2, 1, 0, 0, 3, 3]
    shown = pipeline.run("diff", "--side", "v2", "--key", "carrier").stdout
    assert 'out, different: {"carrier": "AA"}' in shown
    assert '  here   {"carrier": "AA", "n": 2}' in shown


def test_two_outputs_that_are_the_same_differ_in_nothing(pipeline: Pipeline):
    rows = [(f"k{number % 7}", f"{number}") for number in range(200)]
    pipeline.write(pipeline.out, rows)
    pipeline.write(f"{pipeline.out}.v2", rows[::-1])
    done = pipeline.run("diff", "--side", "v2")
    assert (done.returncode, done.stderr) == (0, "")
    assert pipeline.run("diff", "--side", "v2", "--newest").returncode == 1


def test_what_retention_took_from_a_side_is_named_and_is_no_difference(pipeline: Pipeline):
    rows = [(f"k{number}", f"{number}") for number in range(20)]
    pipeline.write(pipeline.out, rows)
    side = f"{pipeline.out}.v2"
    pipeline.write(side, rows)
    admin = AdminClient({"bootstrap.servers": pipeline.bootstrap, "log_level": 2})
    [deletion] = admin.delete_records([TopicPartition(side, 0, 5)]).values()
    deletion.result()
    done = pipeline.run("diff", "--side", "v2", "--json")
    [found] = json.loads(done.stdout)
    assert (done.returncode, found["only_there"], found["unknown"], found["equal"]) == (1, 0, 5, 15)
    assert found["cut"] == [{"side": "here", "topic": side, "partition": 0, "begins": 5}]
    assert len(found["examples"]["unknown"]) == 5
    shown = pipeline.run("diff", "--side", "v2").stdout
    assert f"out: {side}-0 (the replay) begins at offset 5" in shown


def test_each_sink_may_have_a_key_of_its_own(pipeline: Pipeline):
    pipeline.write(pipeline.out, [("x", '{"n":1,"v":1}')])
    pipeline.write(f"{pipeline.out}.v2", [("y", '{"n":1,"v":1}')])
    assert pipeline.run("diff", "--side", "v2").returncode == 1
    for keys in (("--key", "n"), ("--key", "out:n"), ("--key", "missing", "--key", "out:n,v")):
        assert pipeline.run("diff", "--side", "v2", *keys).returncode == 0, keys
    assert "sink out already has one" in pipeline.run("diff", "--side", "v2", "--key", "out:n", "--key", "out:v").stderr


def test_the_topics_of_a_replay_keep_records_of_the_past(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]):
    spec = read(pipeline.file)
    admin = AdminClient({"bootstrap.servers": pipeline.bootstrap, "log_level": 2})
    resource = ConfigResource("topic", pipeline.out)
    for name, value in (("retention.ms", "60000"), ("max.message.bytes", "2000000")):
        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    [altered] = admin.incremental_alter_configs([resource]).values()
    altered.result()
    ranges = {"events": ReplayRange({pipeline.events: {0: 0, 1: 0}}, {pipeline.events: {0: 0, 1: 0}})}
    for suffix in ("v2", "v3"):
        _create_topics(spec, replayed(spec, ranges, suffix), pipeline.bootstrap)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"warning: topic {pipeline.out}.v2 already exists and its retention.ms is not -1" in said
    described = admin.describe_configs([ConfigResource("topic", f"{pipeline.out}.v3")])
    [found] = [{name: each.value for name, each in future.result().items()} for future in described.values()]
    names = ("retention.ms", "retention.bytes", "max.message.bytes")
    assert [found[name] for name in names] == ["-1", "-1", "2000000"]


def report(pipeline: Pipeline, batch: int, out: int = 9) -> Report:
    offsets = [{pipeline.events: {"0": each * 10}} for each in (batch, batch + 1)]
    return Report(
        pipeline=pipeline.name,
        sink="out",
        query_id="q",
        run_id="r",
        batch=batch,
        at_ms=1_370_044_800_000 + batch * 20_000,
        window_ms=60_000,
        rows=10,
        sources=(SourceRange(start=offsets[0], end=offsets[1], rows=10),),
        points=(
            Count(step="events", role="in", balanced=True, rows=10, checksum="0" * 16),
            Count(step="events", role="out", rows=out, checksum="0" * 16),
            Count(step="events", role="dead_letters", rows=1, checksum="0" * 16),
        ),
    )


def test_the_audit_of_what_was_published_balances_or_says_what_does_not(pipeline: Pipeline):
    with Publisher(pipeline.bootstrap, pipeline.audit) as publish:
        for batch in range(4):
            publish(report(pipeline, batch))
        done = pipeline.run("audit")
        assert (done.returncode, done.stderr) == (0, "")
        assert "4 batches: it balances" in done.stdout
        assert "2013-06-01T00:00:00Z  out   events  30   27        -     3" in done.stdout
        publish(report(pipeline, 6, out=8))
    pipeline.write(pipeline.audit, [("strange", "{}")])
    done = pipeline.run("audit")
    assert done.returncode == 1
    assert f"batches 4 to 5 are not reported: offsets 40 to 59 of {pipeline.events}-0" in done.stderr
    assert "batch 6, step events: 10 in, but 8 out + 1 dead letters" in done.stderr
    assert f"1 records of {pipeline.audit} are not audit reports" in done.stderr
    document = json.loads(pipeline.run("audit", "--since", "2013-06-01T00:01:30Z", "--json").stdout)
    assert (document["batches"], [each["kind"] for each in document["findings"]]) == (1, ["imbalance"])


def test_the_group_is_moved_to_the_end_of_a_replay_that_is_through(pipeline: Pipeline):
    side = pipeline.directory / "checkpoints" / f"{pipeline.name}-v2"
    refused = pipeline.run("replay", "--into", "v2", "--promote")
    assert (refused.returncode, "there is no replay v2" in refused.stderr) == (4, True)
    remember(side, {"events": ReplayRange({pipeline.events: {0: 0, 1: 0}}, {pipeline.events: {0: 5, 1: 6}})})
    refused = pipeline.run("replay", "--into", "v2", "--promote", "--execute")
    assert (refused.returncode, "has not come to its end" in refused.stderr) == (1, True)
    for name in ("offsets", "commits"):
        (side / "out" / name).mkdir(parents=True)
    end = json.dumps({pipeline.events: {"0": 5, "1": 6}})
    (side / "out" / "offsets" / "0").write_text("\n".join(["v1", "{}", end]))
    (side / "out" / "commits" / "0").write_text("v1\n{}")
    shown = pipeline.run("replay", "--into", "v2", "--promote", "--json")
    assert [(each["position"], each["new"]) for each in json.loads(shown.stdout)] == [(None, 5), (None, 6)]
    assert pipeline.committed() == [-1001, -1001]
    assert pipeline.run("replay", "--into", "v2", "--promote", "--execute").returncode == 0
    assert pipeline.committed() == [5, 6]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["replay", "--into", "V 2"], 1, "cannot be part of a topic's name"),
        (["replay", "--into", "v3", "--from", "noon"], 1, "'noon' is not a place"),
        (["replay", "--into", "v3", "--from", "EVENTS:0=7,1=0"], 1, "has offsets 0 to 0, and not 7"),
        (["replay", "--into", "v3", "--execute"], 2, "--execute is for --promote"),
        (["diff", "--side", "v2", "--sink", "none"], 4, "has no sink 'none'"),
        (["diff", "--side", "none"], 4, "does not exist"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(pipeline: Pipeline, arguments: list[str], code: int, message: str):
    done = pipeline.run(*(each.replace("EVENTS", pipeline.events) for each in arguments))
    assert (done.returncode, message in done.stderr, done.stderr.count("\n")) == (code, True, 1), done.stderr
