"""Pipelines on a cluster of Spark: a master and two workers as processes, which have nothing of Ottla of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.pipelines.tables import ParquetTable
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.system.spark_cluster import SparkCluster, packages_of, python_environment
from tests.system.test_pipelines import Broker

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
ROWS = 1_000
BATCH = 100
_names = count()

PIPELINE = """
name = "NAME"
checkpoints = "checkpoints"

[sources.events]
topics = ["NAME.in"]
format = "json"
schema = "n int"
max_records = BATCH

[[steps]]
name = "sane"
expect = [{ name = "possible", check = "n % 7 != 0", on_fail = "dlq" }]

[[steps]]
name = "where"
python = "where:where"

[[sinks]]
name = "out"
topic = "NAME.out"

[[sinks]]
name = "lake"
parquet = "lake"

[dead_letters]
topic = "NAME.dead"
"""
WHERE = """
import pandas as pd
from pyspark.sql import functions as f


@f.pandas_udf("string")
def file_of(n: pd.Series) -> pd.Series:
    import ottla.native._kernel as kernel

    return pd.Series([kernel.__file__] * len(n))


def where(rows):
    return rows.withColumn("file", file_of("n"))
"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


def pipeline(directory: Path, there: Broker, *, rows: int, replicas: int = 1) -> str:
    """A pipeline file with all its topics, the first of them filled; its name."""
    name = f"workers{next(_names)}"
    topics = [NewTopic(f"{name}.{topic}", 2, replicas) for topic in ("in", "out", "dead")]
    admin = AdminClient({"bootstrap.servers": there.bootstrap, "log_level": 2})
    for created in admin.create_topics(topics).values():
        created.result()
    there.produce(f"{name}.in", [b"bad" if n % 10 == 0 else json.dumps({"n": n}).encode() for n in range(rows)])
    (directory / "where.py").write_text(WHERE)
    (directory / "p.toml").write_text(PIPELINE.replace("BATCH", str(BATCH)).replace("NAME", name))
    return name


def command(spark: SparkCluster, bootstrap: str, *more: str) -> list[str]:
    given = ["--until-caught-up", "--json", "--memory", "512m", "--master", spark.master, "-b", bootstrap]
    settings = ["spark.pyspark.python=python3", "spark.executor.memory=512m", *more]
    return [
        *(sys.executable, "-m", "ottla.cli", "pipeline", "run", "p.toml", *given),
        *(word for setting in settings for word in ("--conf", setting)),
    ]


def environment() -> dict[str, str]:
    """The driver's, without what the tests of this machine may have set."""
    return {key: value for key, value in os.environ.items() if key not in ("SPARK_LOCAL_IP", "PYSPARK_PYTHON")}


def numbers(directory: Path, there: Broker, name: str) -> tuple[list[int], list[int], int]:
    """What is committed: the numbers in the topic and in the table, and how many dead letters."""
    out = [json.loads(value)["n"] for value in there.values(f"{name}.out")]
    files = ParquetTable.open(str(directory / "lake")).files()
    lake = [row["n"] for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(out), sorted(lake), len(there.consume(f"{name}.dead"))


def good(rows: int) -> list[int]:
    return [n for n in range(rows) if n % 10 and n % 7]


def test_workers_that_have_only_what_pyspark_needs_are_sent_the_package(spark, new_broker, tmp_path):
    assert packages_of(spark.python, "pyarrow", "ottla", "pyspark_ottla", "msgspec", "pyspark") == ["pyarrow"]
    broker = started(new_broker, spark)
    there = Broker(broker.bootstrap)
    name = pipeline(tmp_path, there, rows=200)
    run = subprocess.run(
        command(spark, broker.bootstrap), cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    out, lake, dead = numbers(tmp_path, there, name)
    assert out == lake == good(200)
    assert dead == 200 - len(good(200))
    files = {json.loads(value)["file"] for value in there.values(f"{name}.out")}
    # The kernel that the rows went through was unpacked into the working directory of an executor.
    assert all(".work/app-" in file and "/ottla/native/" in file for file in files), files


def started(new_broker: Callable[..., BrokerProcess], spark: SparkCluster) -> BrokerProcess:
    """A broker where workers of other machines would find it."""
    broker = new_broker()
    broker.host = spark.host
    return broker.start()


def test_the_environment_of_the_document_is_all_that_workers_need(spark, new_broker, tmp_path):
    document = (ROOT / "docs" / "pipelines.md").read_text()
    lines = re.findall(r"^(?:tar|ottla pipeline run) .*environment.*$", document, re.MULTILINE)
    assert len(lines) == 2, lines
    broker = started(new_broker, spark)
    there = Broker(broker.bootstrap)
    name = pipeline(tmp_path, there, rows=200)
    python_environment(tmp_path / "environment", "ottla", "pyspark_ottla", "msgspec", copied=True)
    pack, run = ([word.replace("spark://HOST:7077", spark.master) for word in shlex.split(line)] for line in lines)
    subprocess.run(pack, cwd=tmp_path, check=True)
    assert tarfile.is_tarfile(tmp_path / "environment.tar.gz")
    run = [sys.executable, "-m", "ottla.cli", *run[1:], "--until-caught-up", "-b", broker.bootstrap]
    run = ["p.toml" if word.endswith(".toml") else word for word in run]
    done = subprocess.run(
        [*run, "--conf", "spark.executor.memory=512m"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    out, lake, _ = numbers(tmp_path, there, name)
    assert out == lake == good(200)
    files = {json.loads(value)["file"] for value in there.values(f"{name}.out")}
    assert all("/environment/lib/" in file for file in files), files


def test_brokers_that_workers_cannot_reach_are_named_before_anything_begins(new_broker, tmp_path):
    broker = new_broker().start()
    there = Broker(broker.bootstrap)
    pipeline(tmp_path, there, rows=10)
    words = [*command(SparkCluster(tmp_path, host="spark.example.org", port=7077), broker.bootstrap)]
    run = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stdout == ""
    assert f"cannot reach the broker at {broker.bootstrap}" in run.stderr
    assert run.stderr.count("\n") == 1


def test_an_executor_a_worker_and_a_broker_are_killed_and_every_row_is_there_once(spark, new_cluster, tmp_path):
    brokers = new_cluster(default_replication_factor="3", min_insync_replicas="2")
    for each in brokers.brokers.values():
        each.host = spark.host
    with brokers.start():
        brokers.wait_until_registered()
        there = Broker(brokers.bootstrap)
        name = pipeline(tmp_path, there, rows=ROWS, replicas=3)
        brokers.wait_until_in_sync(f"{name}.out")
        batches: Counter[str] = Counter()
        driver = subprocess.Popen(
            command(spark, brokers.bootstrap), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
        )
        assert driver.stdout is not None
        what_happens = iter(
            [
                lambda: wait_until(spark.executors, "an executor")[0].kill(),
                lambda: brokers.leader(f"{name}.out").kill(),
                lambda: spark.kill("worker-0"),
            ]
        )
        said = []
        for line in driver.stdout:
            said.append(line)
            event = json.loads(line)
            batches[event["event"]] += 1
            if event["event"] == "batch" and batches["batch"] % 4 == 2:
                next(what_happens, lambda: None)()
        assert driver.wait() == 0, "".join(said[-20:])
        assert next(what_happens, None) is None, "it was over before everything had happened"
        out, lake, dead = numbers(tmp_path, there, name)
    assert out == lake == good(ROWS)
    assert dead == ROWS - len(good(ROWS))
