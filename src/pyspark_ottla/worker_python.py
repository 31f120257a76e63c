"""The Python that Spark starts beside the JVM, without what makes each of its starts slow.

Spark puts a ZIP file of PySpark's sources first on the path of every Python that it starts, and Python keeps no
compiled form of modules in a ZIP file: each process compiles the same 300 modules again, for half a second. The first
micro-batch waits for six such processes. Where PySpark was installed by pip, the same modules lie compiled beside it.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

_SCRIPT = """#!/bin/sh
path=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
        *) path=$path${{path:+:}}$entry ;;
    esac
done
PYTHONPATH=$path exec '{python}' "$@"
"""


def worker_python() -> str:
    """A value for the environment variable `PYSPARK_PYTHON`, to be set before the session is made.

    This Python, by a script that takes the ZIP files off the path and lives as long as this process. It is this Python
    itself where that is of no use: on Windows, or when the PySpark that Spark runs is not the one that was installed.
    Only for masters on this host: elsewhere the script does not exist.
    """
    if os.name != "posix" or "'" in sys.executable or not _is_installed():
        return sys.executable
    directory = tempfile.mkdtemp(prefix="ottla-python-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    script = Path(directory) / "python3"
    script.write_text(_SCRIPT.format(python=sys.executable))
    script.chmod(0o700)
    return str(script)


def _is_installed() -> bool:
    """Whether Spark's home is the installed package, so that the ZIP file has the same modules."""
    import pyspark

    package = Path(pyspark.__file__).resolve().parent
    home = os.environ.get("SPARK_HOME")
    return (package / "jars").is_dir() and (home is None or Path(home).resolve() == package)
