"""What docs/spark.md says of a cluster of Spark: its own lines, on workers that have nothing of Ottla."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass

from tests.broker_process import BrokerProcess
from tests.system.spark_cluster import HOME, SparkCluster, packages_of, python_environment
from tests.system.test_spark import Cluster

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PACKAGES = ("ottla", "pyspark_ottla", "msgspec")
ROWS = 100
QUICK = "-XX:TieredStopAtLevel=1"
PROGRAM = """
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

spark = SparkSession.builder.getOrCreate()
SHIP


@f.pandas_udf("string")
def file_of(n: pd.Series) -> pd.Series:
    import ottla.native._kernel as kernel

    return pd.Series([kernel.__file__] * len(n))


frame = (
    spark.read.format("ottla").options(**OPTIONS).option("minPartitions", "2").load()
    .withColumn("file", file_of("offset"))
)
frame.selectExpr("file as key", "VALUE as value").write.format("ottla").options(**WRITE).mode("append").save()
spark.stop()
"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark")) as cluster:
        assert packages_of(cluster.python, "pyarrow", *PACKAGES, "pyspark", "google") == ["pyarrow"]
        yield cluster


@pytest.fixture
def there(spark: SparkCluster, tmp_path: Path) -> Iterator[Cluster]:
    """A broker where workers of other machines would find it."""
    broker = BrokerProcess(tmp_path / "data")
    broker.host = spark.host
    with broker:
        yield Cluster(broker.bootstrap)


def lines(*beginnings: str) -> list[str]:
    """The commands of the document that begin so, each of which stands there once."""
    document = (ROOT / "docs" / "spark.md").read_text()
    found = [re.findall(rf"^{re.escape(each)}.*$", document, re.MULTILINE) for each in beginnings]
    assert [len(each) for each in found] == [1] * len(beginnings), found
    return [line for [line] in found]


def filled(there: Cluster, values: Iterable[bytes]) -> str:
    """A topic with a record for each value."""
    topic = there.create(2)
    producer = Producer({"bootstrap.servers": there.bootstrap, "log_level": 2})
    for place, value in enumerate(values):
        producer.produce(topic, value, partition=place % 2)
    assert producer.flush(60) == 0
    return topic


def program(
    directory: Path, there: Cluster, topic: str, *, ship: str = "", value: str = "value", **options: str
) -> str:
    """`program.py`, which copies a topic; the name of the copy."""
    copy = there.create(2)
    read = {"kafka.bootstrap.servers": there.bootstrap, "subscribe": topic, **options}
    write = {"kafka.bootstrap.servers": there.bootstrap, "topic": copy}
    text = PROGRAM.replace("OPTIONS", repr(read)).replace("WRITE", repr(write))
    (directory / "program.py").write_text(text.replace("SHIP", ship).replace("VALUE", value))
    return copy


def run(line: str, directory: Path, spark: SparkCluster) -> None:
    """A line of the document, by a shell, with `spark-submit` told of this cluster."""
    words = directory / "words"
    words.mkdir(exist_ok=True)
    submit = words / "spark-submit"
    given = f"--master {spark.master} --driver-memory 512m --executor-memory 512m --conf spark.ui.enabled=false"
    # A JVM that lives for one small job is done before it would be compiled well.
    given += f" --driver-java-options {QUICK} --conf spark.executor.extraJavaOptions={QUICK}"
    submit.write_text(f'#!/bin/sh\nexec {HOME}/bin/spark-submit {given} "$@"\n')
    submit.chmod(0o700)
    left_out = ("SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    environment["PATH"] = os.pathsep.join([str(words), str(Path(sys.executable).parent), environment["PATH"]])
    done = subprocess.run(
        ["sh", "-c", line], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


def files_of(there: Cluster, copy: str) -> set[str]:
    """Where the kernel was that the rows went through, which all came."""
    messages = there.consume(copy)
    assert len(messages) == ROWS
    return {message.key().decode() for message in messages}


def test_an_archive_of_packages_is_all_that_workers_need(spark, there, tmp_path):
    install, submit = lines("pip install --target", "spark-submit --archives packages")
    copy = program(tmp_path, there, filled(there, [b"x"] * ROWS))
    # Beside what pip would install: there is no wheel of this repository to be found.
    _, _, pack = install.partition("&& ")
    python_environment(tmp_path / "made", *PACKAGES, copied=True)
    [made] = (tmp_path / "made").glob("lib/python*/site-packages")
    (tmp_path / "packages").mkdir()
    for name in PACKAGES:
        (made / name).rename(tmp_path / "packages" / name)
    run(pack, tmp_path, spark)
    run(submit, tmp_path, spark)
    assert all(".work/app-" in file and "/packages/ottla/native/" in file for file in files_of(there, copy))


def test_an_archive_of_an_environment_is_all_that_workers_need(spark, there, tmp_path):
    pack, submit = lines("tar -czf environment", "PYSPARK_PYTHON=environment")
    copy = program(tmp_path, there, filled(there, [b"x"] * ROWS))
    python_environment(tmp_path / "environment", *PACKAGES, copied=True)
    run(pack, tmp_path, spark)
    run(submit, tmp_path, spark)
    assert all(".work/app-" in file and "/environment/lib/" in file for file in files_of(there, copy))


def test_a_driver_sends_its_packages_and_those_that_decode_protocol_buffers(spark, there, tmp_path):
    [ship] = lines("ship(spark)")
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="n.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    (tmp_path / "n.desc").write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    order = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    topic = filled(there, [order(id=n).SerializeToString() for n in range(ROWS)])
    options = {"valueFormat": "protobuf", "valueSchema": str(tmp_path / "n.desc"), "valueMessage": "shop.Order"}
    ship = f"from pyspark_ottla import ship\n{ship}"
    copy = program(tmp_path, there, topic, ship=ship, value="cast(data.id as string)", **options)
    run("spark-submit program.py", tmp_path, spark)
    assert all(".work/app-" in file and "/ottla/native/" in file for file in files_of(there, copy))
    assert sorted(int(each.value()) for each in there.consume(copy)) == list(range(ROWS))
