"""The packages that a driver sends its workers can be imported where Spark unpacks them, by a Python without them."""

import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from pyspark_ottla.shipping import PACKAGES, archives, ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_what_is_unpacked_is_imported_with_its_compiled_parts(tmp_path):
    unpacked = tmp_path / "files"
    for archive in archives(tmp_path):
        file, _, name = archive.partition("#")
        with zipfile.ZipFile(file) as packed:
            packed.extractall(unpacked / name)
    names = {each.name for each in unpacked.iterdir()}
    assert names >= set(PACKAGES)
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import ottla.client.blocking, google.protobuf.descriptor_pool
from google.protobuf.internal import api_implementation
print(ottla.client.blocking.__file__, google.protobuf.__file__, api_implementation.Type())
"""
    # Neither this environment's packages nor those of the path are there.
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(unpacked)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    client, protobuf, implementation = run.stdout.split()
    assert Path(client) == unpacked / "ottla" / "client" / "blocking.py"
    assert Path(protobuf) == unpacked / "google" / "protobuf" / "__init__.py"
    assert implementation == "upb"


def test_a_local_master_is_sent_nothing(tmp_path):
    ship(cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(master="local-cluster[2,1,512]"))), tmp_path)
    assert list(tmp_path.iterdir()) == []
