"""The Python that Spark starts beside the JVM, without what makes each of its starts slow.

Spark puts a ZIP file of PySpark's sources first on the path of every Python that it starts. Python stores no compiled
form of modules in a ZIP file, so each process compiles the same 300 modules again, for half a second. The first
micro-batch waits for six such processes. If pip installed PySpark, the same modules exist compiled beside it.
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
    """A value for the environment variable `PYSPARK_PYTHON`. Set it before you create the session.

    It is a script that runs this Python without Spark's ZIP files on the path; it exists as long as this process. On
    Windows, or when Spark does not run the installed PySpark, it is the path of this Python itself. Use it only with
    masters on this host: the script does not exist on others.
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
