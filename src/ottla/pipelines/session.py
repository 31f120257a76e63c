"""The Spark session of pipelines: local unless a master is set, with its log in a file."""

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.pipelines.jvm import Jvm
from ottla.pipelines.masters import is_local
from ottla.pipelines.spark_log import SparkLog
from ottla.pipelines.spark_python import ARCHIVES, WorkersError, absolute_archives, spark_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MINIMUM = 17
PYSPARK_MINIMUM = (4, 2)
"""The first PySpark whose Python data sources support limits and `availableNow`."""
_LOG4J = Path(__file__).with_name("log4j2.properties")
_STREAMING = "org.apache.spark.sql.execution.streaming"
_STATE_STORE = f"{_STREAMING}.state.RocksDBStateStoreProvider"
_CHECKPOINTS = f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"


class SparkMissingError(Exception):
    """Spark cannot start on this machine. The message is one line: what is missing, what to do."""


class SparkEndedError(Exception):
    """The JVM of a session ended unexpectedly. The message is one line."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The options of a session. `log` is the file for Spark's log; older files are beside it."""

    log: Path
    scratch: Path
    """A temporary directory for this run; the caller removes it."""
    name: str = "ottla"
    master: str | None = None
    """The URL of Spark's master; None for a local one that retries failed tasks, unlike plain `local[N]`."""
    memory: str = "1g"
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark; they take precedence over the defaults."""


def local_master(cores: int) -> str:
    """The local master: at least two tasks in parallel, with four attempts each."""
    return f"local[{max(cores, 2)},4]"


def settings(options: SessionOptions, cores: int) -> dict[str, str]:
    """Spark's settings for a session, as `spark-submit --conf` takes them."""
    master = options.master or local_master(cores)
    # The JVM may have a working directory of its own.
    scratch = options.scratch.absolute()
    made = {
        "spark.master": master,
        "spark.app.name": options.name,
        "spark.driver.memory": options.memory,
        "spark.driver.extraJavaOptions": (f"-XX:+UseParallelGC -Dlog4j2.configurationFile={_LOG4J.as_uri()}"),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Over TCP, whatever program connects to a port of Spark's first is taken for Spark's own.
        "spark.python.unix.domain.socket.enabled": "true",
        # The default of 200 makes small states and aggregations crawl.
        "spark.sql.shuffle.partitions": str(max(cores, 2)),
        # The default writes timestamps without a zone, in a form that Parquet has retired.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # The only state store that transformWithState takes.
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        # The supervisor takes what is new, and may be held up by another query that is planned, or searched for rows.
        "spark.sql.streaming.numRecentProgressUpdates": "500",
        # Where a query is to end at once, and does not: without it, for ever.
        "spark.sql.streaming.stopTimeout": "10s",
        # Of a small table, which is read while the broker may be away and the machine busy.
        "spark.sql.broadcastTimeout": "1200",
        # A second attempt beside the first would write the rows of a transaction twice.
        "spark.speculation": "false",
    }
    if is_local(master):
        # Renames files in place of Hadoop's shell calls: a micro-batch is 60 ms faster.
        made["spark.sql.streaming.checkpointFileManagerClass"] = _CHECKPOINTS
    made.update(options.conf)
    if ARCHIVES in made:
        made[ARCHIVES] = absolute_archives(made[ARCHIVES])
    return made


def require_java() -> None:
    """Raises SparkMissingError if there is no Java that Spark supports."""
    hint = f"install Java {JAVA_MINIMUM} (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise SparkMissingError(f"Spark needs Java, and there is no {java or 'java on the PATH'}: {hint}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA_MINIMUM:
        found = version[1] if version else said.strip().partition("\n")[0] or "nothing"
        raise SparkMissingError(f"Spark needs Java {JAVA_MINIMUM} or newer, and {java} is {found}: {hint}")


def require_pyspark() -> None:
    """Raises SparkMissingError if PySpark is missing or too old."""
    install = "pip install 'ottla[pipelines]'"
    try:
        import pyspark
    except ModuleNotFoundError:
        raise SparkMissingError(f"pipelines need PySpark: {install}") from None
    found = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if found < PYSPARK_MINIMUM:
        needed = ".".join(map(str, PYSPARK_MINIMUM))
        raise SparkMissingError(f"pipelines need PySpark {needed} or newer, not {pyspark.__version__}: {install}")


def quiet_loggers() -> None:
    """Silence the loggers of Py4J and PySpark, which log a traceback for each exception that they also raise."""
    from pyspark.logger import PySparkLogger

    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    # An interrupt it logs under no name of its own.
    logging.getLogger().addFilter(_is_no_interrupt_of_py4j)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _is_no_interrupt_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway" or "KeyboardInterrupt" not in record.getMessage()


class Session:
    """A Spark session and the JVM it runs in, for a `with` statement."""

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._jvm = Jvm()
        self._log: SparkLog | None = None
        self._gateway: Any = None
        self._before: tuple[Any, Any] = (None, None)
        self._environ: dict[str, str | None] = {}
        self._spark: SparkSession | None = None

    def __enter__(self) -> Self:
        require_pyspark()
        require_java()
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        options = self._options
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
        chosen = settings(options, cores)
        try:
            python = spark_python(chosen, options.scratch.absolute(), os.environ)
        except WorkersError as error:
            raise SparkMissingError(str(error)) from error
        # PySpark itself asks the environment too, while the session lives.
        self._environ = {name: os.environ.get(name) for name in python.environ}
        os.environ.update(python.environ)
        quiet_loggers()
        options.log.parent.mkdir(parents=True, exist_ok=True)
        # PySpark keeps the first JVM of a process for all sessions after it; this one is ours, and ends with us.
        self._before = SparkContext._gateway, SparkContext._jvm
        SparkContext._gateway = SparkContext._jvm = None
        conf = SparkConf().setAll([*chosen.items()])
        try:
            self._log = SparkLog(options.log)
            try:
                streams = {"stdout": self._log, "stderr": self._log, "cwd": python.directory}
                self._gateway = self._jvm.launch(conf, streams)
            finally:
                self._log.hand_over()
            self._spark = SparkSession(SparkContext(gateway=self._gateway, conf=conf))
            if not python.has_packages:
                from pyspark_ottla.shipping import ship

                ship(self._spark, options.scratch.absolute())
        except KeyboardInterrupt:
            self._end()
            raise
        except Exception as error:
            line = str(error).strip().partition("\n")[0]
            self._end()
            raise SparkMissingError(f"Spark did not start, see {options.log}: {line}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    @property
    def spark(self) -> "SparkSession":
        """The session, inside of the `with` statement."""
        assert self._spark is not None
        return self._spark

    def _end(self) -> None:
        try:
            # A JVM that has ended already, by a signal to all of us, has nothing to stop.
            with suppress(Exception):
                if self._spark is not None:
                    self._spark.stop()
            with suppress(Exception):
                if self._gateway is not None:
                    self._gateway.shutdown()
        finally:
            self._spark = self._gateway = None
            self._jvm.end()
            if self._log is not None:
                self._log.close()
            self._forget()

    def _forget(self) -> None:
        """Leave PySpark and the environment as they were found."""
        from pyspark import SparkContext

        SparkContext._gateway, SparkContext._jvm = self._before
        for name, value in self._environ.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
