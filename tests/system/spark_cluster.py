"""A cluster of Spark as a user has it: a master and workers as processes of their own, each killable, executors too.

The workers are given nothing of this repository: their Python is an environment with what PySpark itself needs, and
they begin with an empty `PYTHONPATH`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import venv
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark

from tests.cluster import wait_until
from tools.ports import free_ports

HOME = Path(pyspark.__file__).resolve().parent
NEEDED = ("pyarrow", "numpy", "numpy.libs", "pandas", "dateutil", "pytz", "tzdata", "six.py")
"""Of the packages here, what PySpark's own Python needs to exchange Arrow batches."""
EXECUTOR = "CoarseGrainedExecutorBackend"


def address_of_this_machine() -> str:
    """An address of this machine that others would use; the loopback address of one that has no other."""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family == socket.AF_INET and not each.address.startswith("127."):
                return each.address
    return "127.0.0.1"


def python_environment(directory: Path, *packages: str, copied: bool = False) -> Path:
    """An environment of Python with what PySpark needs and these packages, linked or copied from this one."""
    venv.create(directory, symlinks=True)
    [there] = directory.glob("lib/python*/site-packages")
    for name in (*NEEDED, *packages):
        source = _package(name)
        if source is None:
            continue
        if copied and source.is_dir():
            shutil.copytree(
                source, there / source.name, ignore=shutil.ignore_patterns("__pycache__", "tests", "include")
            )
        else:
            (there / source.name).symlink_to(source)
    return directory


def _package(name: str) -> Path | None:
    beside = HOME.parent / name
    spec = None if beside.exists() or "." in name else importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0])
    return beside if beside.exists() else None


@dataclass
class SparkCluster:
    """One master and some workers of a core each, for a `with` statement."""

    directory: Path
    workers: int = 2
    host: str = field(default_factory=address_of_this_machine)
    port: int = 0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        return f"spark://{self.host}:{self.port}"

    @property
    def python(self) -> Path:
        """The only Python that the workers' PATH leads to."""
        return self.directory / "python" / "bin" / "python3"

    def __enter__(self) -> SparkCluster:
        (self.port,) = free_ports(1)
        python_environment(self.directory / "python")
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(self.port))
        self._wait_for("master", "I have been elected leader")
        for number in range(self.workers):
            self.start_worker(f"worker-{number}")
        return self

    def start_worker(self, name: str) -> None:
        """Returns when the master has it."""
        work = str(self.directory / f"{name}.work")
        options = ("--cores", "1", "--memory", "1g", "--work-dir", work)
        self._start(name, "org.apache.spark.deploy.worker.Worker", *options, self.master)
        self._wait_for(name, "Successfully registered with master")

    def kill(self, name: str) -> None:
        """As a machine that is gone: the worker and what it started."""
        process = self.processes.pop(name)
        everybody = psutil.Process(process.pid).children(recursive=True)
        for each in (process, *everybody):
            each.kill()
        process.wait()

    def executors(self) -> list[psutil.Process]:
        """The executors that run, of all workers."""
        workers = [process for name, process in self.processes.items() if name.startswith("worker")]
        started = [each for worker in workers for each in psutil.Process(worker.pid).children()]
        return [each for each in started if EXECUTOR in _command(each)]

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    def _start(self, name: str, what: str, *options: str) -> None:
        environment = {
            key: value for key, value in os.environ.items() if key in ("HOME", "JAVA_HOME", "LANG", "TMPDIR")
        }
        java = Path(shutil.which("java") or "/usr/bin/java").parent
        environment["PATH"] = os.pathsep.join([str(self.python.parent), str(java), "/usr/bin", "/bin"])
        environment |= {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": self.host, "SPARK_DAEMON_MEMORY": "256m"}
        environment["SPARK_DAEMON_JAVA_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        command = [str(HOME / "bin" / "spark-class"), what, "--host", self.host, "--webui-port", "0", *options]
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, cwd=self.directory
            )

    def _wait_for(self, name: str, line: str) -> None:
        def there() -> bool:
            assert self.processes[name].poll() is None, self.log(name)
            return line in self.log(name)

        wait_until(there, f"{name} to say {line!r}", 120)

    def __exit__(self, *_: object) -> None:
        for name in [*self.processes]:
            self.kill(name)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        # It has ended, and its worker has yet to look.
        return ""


def packages_of(python: Path, *names: str) -> list[str]:
    """Which of these a Python can import, with nothing on its path but its own."""
    code = "import importlib.util, sys; print(*[n for n in sys.argv[1:] if importlib.util.find_spec(n)])"
    run = subprocess.run([str(python), "-I", "-c", code, *names], capture_output=True, text=True, check=True)
    return run.stdout.split()
