"""Spark sessions for the tests of one file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.pipelines.session import Session, SessionOptions
from pyspark_ottla import worker_python

SHORT_RUN = "-XX:TieredStopAtLevel=1"
"""For a JVM that lives a minute: its second compiler would take more than the code that it makes faster saves."""


@contextmanager
def pipeline_session(scratch: Path) -> Iterator[Session]:
    """A session as pipelines have one, in a JVM of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", SHORT_RUN)
        with Session(SessionOptions(scratch / "spark.log", scratch, memory="512m")) as session:
            yield session


@contextmanager
def spark_session(scratch: Path, master: str = "local[2,4]") -> Iterator[SparkSession]:
    """A session whose files lie below `scratch`, and that ends with the `with` statement."""
    os.environ["PYSPARK_PYTHON"] = worker_python()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "512m")
        # Spark's sockets take one connection, whoever comes first; a client that looks for a broker may.
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.driver.extraJavaOptions", f"{SHORT_RUN} -XX:+UseParallelGC")
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
