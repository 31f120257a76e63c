"""Spark for the demo: one quiet JVM on this machine."""

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from examples.flights.failure import DemoError
from examples.flights.files import DemoFiles
from pyspark_ottla import worker_python

JAVA_MINIMUM = 17
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
_SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"
"""For a JVM that lives a minute: its second compiler would take more than the code that it makes faster saves."""
_LOG4J = Path(__file__).with_name("log4j2.properties")


def require_java() -> None:
    """Raises DemoError unless there is a Java that Spark runs on."""
    hint = f"install Java {JAVA_MINIMUM} (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise DemoError(f"Spark needs Java, and there is no {java or 'java on the PATH'}: {hint}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA_MINIMUM:
        found = version[1] if version else said.strip().partition("\n")[0] or "nothing"
        raise DemoError(f"Spark needs Java {JAVA_MINIMUM} or newer, and {java} is {found}: {hint}")


class SparkStart:
    """A Spark session that starts in the background, as that takes seconds in which the events can be sent."""

    def __init__(self, files: DemoFiles) -> None:
        self._files = files
        self._gateway: Any = None
        self._context: SparkContext | None = None
        self._error: BaseException | None = None
        # A daemon: Ctrl-C must not wait for a JVM that is still starting.
        self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether `session` returns at once."""
        return not self._thread.is_alive()

    def session(self) -> SparkSession:
        """The session, when it has started. Raises what went wrong."""
        self._thread.join()
        if self._error is not None:
            raise DemoError(f"Spark did not start, see {self._files.spark_log}: {self._error}") from self._error
        assert self._context is not None
        # Made here and not beside the context: a session is active in the thread that makes it, and in no other.
        return SparkSession(self._context)

    def stop(self) -> None:
        """End the session and the JVM."""
        if self._context is not None:
            self._context.stop()
        if self._gateway is not None:
            self._gateway.shutdown()
            self._gateway.proc.terminate()
            self._gateway.proc.wait()

    def _start(self) -> None:
        os.environ["PYSPARK_PYTHON"] = worker_python()
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        conf = _configuration(self._files)
        try:
            with self._files.spark_log.open("ab") as log:
                self._gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
            self._context = SparkContext(gateway=self._gateway, conf=conf)
        except BaseException as error:
            self._error = error


def _configuration(files: DemoFiles) -> SparkConf:
    checkpointing = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    logging = f"-Dlog4j2.configurationFile={_LOG4J} -Ddemo.log={files.spark_log}"
    return SparkConf().setAll(
        [
            # Two cores or more, and a task that fails is tried again: plain local[N] never does that.
            ("spark.master", f"local[{CORES},4]"),
            ("spark.app.name", "flights"),
            ("spark.driver.memory", "1g"),
            ("spark.driver.extraJavaOptions", f"{_SHORT_RUN} {logging}"),
            ("spark.local.dir", str(files.spark_scratch)),
            ("spark.sql.warehouse.dir", str(files.spark_scratch / "warehouse")),
            # Over TCP, whatever program connects to a port of Spark's first is taken for Spark's own.
            ("spark.python.unix.domain.socket.enabled", "true"),
            ("spark.ui.enabled", "false"),
            ("spark.ui.showConsoleProgress", "false"),
            ("spark.sql.session.timeZone", "UTC"),
            # The default writes timestamps without a zone, in a form that Parquet has retired.
            ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"),
            # The default of 200 makes small aggregations crawl.
            ("spark.sql.shuffle.partitions", str(CORES)),
            # Renames files in place of Hadoop's shell calls: a micro-batch is 60 ms faster.
            ("spark.sql.streaming.checkpointFileManagerClass", checkpointing),
        ]
    )
