"""Chooses the Python that Spark starts on the driver and on its workers.

Spark starts the processes of a Python data source with the same command on both, which is a path or a name. On a local
master that is this Python. Remote workers may have theirs at another path, so on the driver a file of that name leads
to this one:

```
 spark.pyspark.python        on a worker                        on the driver
 (not set)                   the path of this Python            this Python
 /opt/python/bin/python3     that                               that; it must be there
 python3                     what its PATH says                 SCRATCH/bin/python3, first on Spark's PATH
 environment/bin/python      that of an archive, unpacked into  SCRATCH/environment/bin/python, Spark's working
                             its working directory              directory being SCRATCH
```
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.pipelines.masters import is_local, is_loopback, is_this_machine

SETTING: Final = "spark.pyspark.python"
ARCHIVES: Final = "spark.archives"
_SCRIPT: Final = "#!/bin/sh\nexec '{python}' \"$@\"\n"


class WorkersError(Exception):
    """Workers cannot run with these settings. The message is one line: what is wrong, what to do."""


@dataclass(frozen=True, slots=True)
class SparkPython:
    """The environment of Spark's JVM."""

    environ: dict[str, str] = field(default_factory=dict)
    directory: Path | None = None
    """The working directory of the JVM; None for the current one."""
    has_packages: bool = True
    """Whether the workers' Python has this package; otherwise the driver sends it."""


def spark_python(settings: Mapping[str, str], scratch: Path, environ: Mapping[str, str]) -> SparkPython:
    """Choose the Python, and create links to it on the driver. Raises WorkersError."""
    master = settings["spark.master"]
    if is_local(master):
        from pyspark_ottla.worker_python import worker_python

        return SparkPython({**_both(worker_python()), "SPARK_LOCAL_IP": environ.get("SPARK_LOCAL_IP", "127.0.0.1")})
    address = environ.get("SPARK_LOCAL_IP", "")
    if is_loopback(address) and not is_this_machine(master):
        raise WorkersError(f"SPARK_LOCAL_IP is {address}, where workers of {master} do not find the driver: unset it")
    python = settings.get(SETTING) or environ.get("PYSPARK_PYTHON") or sys.executable
    if Path(python).is_absolute():
        if not Path(python).exists():
            raise WorkersError(
                f"Spark starts Python at one path on the driver and on its workers, and there is no {python} here: give"
                f" {SETTING} a name that each finds on its PATH, such as python3"
            )
        return SparkPython(_both(python), has_packages=False)
    if "/" in python:
        _stand_in(scratch / python)
        return SparkPython(_both(python), scratch)
    _stand_in(scratch / "bin" / python)
    path = f"{scratch / 'bin'}{os.pathsep}{environ.get('PATH', os.defpath)}"
    return SparkPython({**_both(python), "PATH": path}, has_packages=False)


def absolute_archives(archives: str) -> str:
    """The value of `spark.archives` with paths that do not depend on a working directory.

    >>> absolute_archives("hdfs://n/a.zip,/b.tar.gz#b")
    'hdfs://n/a.zip,/b.tar.gz#b'
    """
    each = [archive.strip() for archive in archives.split(",")]
    return ",".join(archive if "://" in archive else str(Path(archive).absolute()) for archive in each if archive)


def _both(python: str) -> dict[str, str]:
    # The driver's goes first where both are set, for the workers too.
    return {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}


def _stand_in(script: Path) -> None:
    """This Python by another name, with what makes it start sooner on the driver."""
    from pyspark_ottla.worker_python import worker_python

    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(_SCRIPT.format(python=worker_python()))
    script.chmod(0o700)
