"""Loads the pipeline that a command line names: a file, or an object in Python."""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from ottla.pipelines.spec.declare import Pipeline
from ottla.pipelines.spec.mistake import Mistake, SpecErrors
from ottla.pipelines.spec.model import PipelineSpec
from ottla.pipelines.spec.reading import read


def load(target: Path | str) -> PipelineSpec:
    """The pipeline of `file.toml`, `file.yaml`, `file.py:name` or `module:name`.

    A module is run; beside it, other modules are found. Raises SpecErrors, OSError when a file cannot be read.
    """
    text = str(target)
    where, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        if Path(text).suffix == ".py":
            raise _refused(text, "the pipeline in this module is not named", f"write it as {text}:NAME")
        return read(text)
    found = getattr(_module(where), name, None)
    if isinstance(found, Pipeline):
        return found.spec()
    if isinstance(found, PipelineSpec):
        return found
    what = f"{name} is not a pipeline" if found is not None else f"there is no {name} here"
    raise _refused(where, what, f"{name} = pipeline(...) at the top of the module")


def _module(where: str) -> ModuleType:
    path = Path(where)
    try:
        if path.suffix != ".py":
            return importlib.import_module(where)
        path = path.resolve(strict=True)
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # so that functions of it can be pickled for Spark's workers
        spec.loader.exec_module(module)
        return module
    except (SpecErrors, OSError):
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and where.startswith(error.name):
            raise _refused(where, f"there is no module {where}", "or is it a file? write FILE.py:NAME") from None
        raise _failed(where, error) from error
    except Exception as error:
        raise _failed(where, error) from error


def _failed(where: str, error: Exception) -> SpecErrors:
    if isinstance(error, SyntaxError):
        return _refused(where, f"this is not Python: {error.msg}", "", error.lineno or 1, error.offset or 1)
    file = str(Path(where).resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return _refused(where, f"running it failed: {type(error).__name__}: {error}", "", (lines or [1])[-1] or 1)


def _refused(file: str, message: str, hint: str, line: int = 1, column: int = 1) -> SpecErrors:
    return SpecErrors([Mistake(file, line, column, message, hint)])
