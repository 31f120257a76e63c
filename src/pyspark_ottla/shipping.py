"""Sends the driver's copy of this package to workers that do not have it.

The Python path of a worker contains the directory of Spark's files. Spark unpacks an archive there under the name
after its `#`. So an archive of a package's files, with the name of the package, can be imported, compiled parts
included. From a wheel or a ZIP file, as `--py-files` sends them, Python imports no compiled part.
"""

import atexit
import importlib.util
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final = ("ottla", "pyspark_ottla", "msgspec")
"""The packages that source and sink import on a worker, besides PySpark and PyArrow."""
OPTIONAL: Final = ("fastavro", "google.protobuf", "google._upb")
"""The packages that source, sink and steps with state import if the driver has them; one archive per namespace."""
_LEFT_OUT: Final = "__pycache__"
_LEVEL: Final = 1
"""Of compression: the kernel is most of it, and a better one takes seconds."""


def ship(spark: "SparkSession", directory: Path | None = None) -> None:
    """Send the driver's copy of this package to the workers of a session, which import it instead of their own.

    Driver and workers need the same operating system, processor and minor version of Python. `directory` is where the
    archives are made, which must stay for as long as the session. Does nothing with a local master.
    """
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="ottla-packages-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    for archive in archives(directory):
        context.addArchive(archive)


def archives(directory: Path) -> list[str]:
    """Make the archives; each as Spark's `--archives` takes it, `FILE#PACKAGE`."""
    packages: dict[str, list[tuple[str, Path]]] = {}
    for name in (*PACKAGES, *OPTIONAL):
        spec = _spec(name)
        if spec is None or not spec.submodule_search_locations:
            if name in OPTIONAL:
                continue
            raise ModuleNotFoundError(f"the package {name} is not installed here", name=name)
        namespace, _, inside = name.partition(".")
        packages.setdefault(namespace, []).append((inside, Path(spec.submodule_search_locations[0])))
    made = []
    for name, parts in packages.items():
        file = directory / f"{name}.zip"
        _pack(parts, file)
        made.append(f"{file}#{name}")
    return made


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        # Not even its namespace is there.
        return None


def _pack(parts: Sequence[tuple[str, Path]], file: Path) -> None:
    """Packages, each under the name that it has in the archive; one without a name is all of it."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for name, package in parts:
            for path in sorted(package.rglob("*")):
                inside = Path(name) / path.relative_to(package)
                if path.is_file() and _LEFT_OUT not in inside.parts:
                    # A file may be of a time before 1980, which ZIP files do not know.
                    entry = zipfile.ZipInfo(str(inside))
                    entry.external_attr = path.stat().st_mode << 16
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(entry, path.read_bytes(), compresslevel=_LEVEL)
