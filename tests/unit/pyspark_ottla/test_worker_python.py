"""Spark's Python processes find PySpark compiled, and everything else as before."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from pyspark_ottla.worker_python import worker_python


def test_the_script_is_this_python_without_the_zip_files_and_with_the_rest_of_the_path(tmp_path):
    lib = Path(pyspark.__file__).parent / "python" / "lib"
    zips = [str(each) for each in lib.glob("*.zip")]
    assert len(zips) == 2
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*zips, str(tmp_path / "with space")])}
    program = "import sys, pyspark; print(pyspark.__file__, sys.path, sys.argv[1:], sep='\\n')"
    found, path, arguments = subprocess.run(
        [worker_python(), "-c", program, "a b"], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert found == pyspark.__file__
    assert str(tmp_path / "with space") in path
    assert arguments == "['a b']"


def test_another_spark_keeps_its_own_path(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert worker_python() == sys.executable
