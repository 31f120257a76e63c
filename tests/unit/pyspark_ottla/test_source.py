"""What Spark finds when it looks for `format("ottla")`."""

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pyspark_ottla
from pyspark_ottla import DefaultSource


def test_spark_finds_the_source_by_the_name_of_its_package():
    # As pyspark.sql.worker.lookup_data_sources does it.
    found = {info.name for info in iter_modules() if info.name.startswith("pyspark_")}
    assert "pyspark_ottla" in found
    assert import_module("pyspark_ottla").DefaultSource is DefaultSource
    assert DefaultSource.name() == "ottla"


def test_the_columns_have_headers_when_they_are_asked_for():
    assert "headers" not in DefaultSource({"subscribe": "t"}).schema().names
    assert DefaultSource({"subscribe": "t", "includeHeaders": "true"}).schema().names[-1] == "headers"


def test_the_workers_that_spark_forks_import_neither_pandas_nor_an_event_loop():
    code = (
        "import sys, pyspark_ottla.batch_reader, pyspark_ottla.stream_reader, pyspark_ottla.writer\n"
        "print([name for name in ('pandas', 'asyncio', 'ssl', 'rich', 'click') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_asking_for_the_columns_imports_neither_arrow_nor_the_client():
    code = (
        "import sys, pyspark_ottla\n"
        "pyspark_ottla.DefaultSource({'kafka.bootstrap.servers': 'x:1', 'subscribe': 't'}).schema()\n"
        "heavy = ('pyarrow', 'numpy', 'ottla.client.blocking', 'urllib.request')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_asking_for_the_name_does_not_import_the_client():
    code = "import sys, pyspark_ottla; print('ottla.client.blocking' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "False"
    assert {"DefaultSource", "lag"} <= set(pyspark_ottla.__all__)
