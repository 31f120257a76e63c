"""Which Python Spark starts on the driver and on workers, by the same words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines.spark_python import WorkersError, absolute_archives, spark_python

CLUSTER = {"spark.master": "spark://m:7077"}


def answer(command: str, path: str, directory: Path) -> str:
    """What a Python says of itself that is started by these words."""
    code = "import sys; print(sys.executable)"
    environ = {**os.environ, "PATH": path}
    run = subprocess.run([command, "-c", code], cwd=directory, env=environ, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_on_this_machine_workers_are_processes_of_the_driver(tmp_path):
    made = spark_python({"spark.master": "local[2,4]"}, tmp_path, {})
    assert made.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert made.has_packages
    assert spark_python({"spark.master": "local[2]"}, tmp_path, {"SPARK_LOCAL_IP": "10.0.0.1"}).environ[
        "SPARK_LOCAL_IP"
    ] == ("10.0.0.1")


def test_workers_elsewhere_are_sent_the_package_and_no_loopback_address_is_forced(tmp_path):
    made = spark_python(CLUSTER, tmp_path, {})
    assert made.environ == {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    assert (made.directory, made.has_packages) == (None, False)


@pytest.mark.parametrize(
    ("settings", "environ"),
    [({"spark.pyspark.python": "python3"}, {"PYSPARK_PYTHON": "python2"}), ({}, {"PYSPARK_PYTHON": "python3"})],
    ids=["setting", "environment"],
)
def test_a_name_is_looked_up_by_each_worker_and_is_this_python_on_the_driver(settings, environ, tmp_path):
    made = spark_python({**CLUSTER, **settings}, tmp_path, {**environ, "PATH": "/usr/bin"})
    assert made.environ["PYSPARK_PYTHON"] == made.environ["PYSPARK_DRIVER_PYTHON"] == "python3"
    assert made.environ["PATH"].endswith(":/usr/bin")
    [script] = (tmp_path / "bin").iterdir()
    assert made.environ["PATH"].startswith(str(script.parent))
    assert answer(str(script), made.environ["PATH"], tmp_path) == sys.executable
    assert not made.has_packages


def test_a_path_within_an_archive_is_this_python_below_the_drivers_directory(tmp_path):
    made = spark_python({**CLUSTER, "spark.pyspark.python": "environment/bin/python"}, tmp_path, {})
    assert made.directory == tmp_path
    assert answer("environment/bin/python", "/usr/bin", tmp_path) == sys.executable
    assert made.has_packages


def test_a_path_that_the_driver_does_not_have_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(WorkersError, match=r"there is no /none/python3 here: give spark\.pyspark\.python a name"):
        spark_python({**CLUSTER, "spark.pyspark.python": "/none/python3"}, tmp_path, {})


def test_a_driver_that_workers_would_not_find_is_refused(tmp_path):
    with pytest.raises(WorkersError, match=r"SPARK_LOCAL_IP is 127\.0\.0\.1, where workers of spark://m:7077"):
        spark_python(CLUSTER, tmp_path, {"SPARK_LOCAL_IP": "127.0.0.1"})
    spark_python({"spark.master": "spark://127.0.0.1:7077"}, tmp_path, {"SPARK_LOCAL_IP": "127.0.0.1"})


def test_archives_do_not_depend_on_a_working_directory():
    here = Path.cwd()
    assert absolute_archives("e.tar.gz#environment, s3://b/x.zip#x,") == (f"{here}/e.tar.gz#environment,s3://b/x.zip#x")
