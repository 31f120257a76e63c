"""Loads the Python functions and classes of a pipeline, from modules beside its file."""

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import cloudpickle


class StepError(Exception):
    """A step cannot be planned. The message is one line: which step, what is wrong, what to do."""


class CallError(Exception):
    """The Python code of a step failed during planning, perhaps temporarily. The message is one line."""


def call(step: str, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function or class of the file. Raises CallError, or Spark's error for an invalid plan."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        return function(*arguments)
    except (AnalysisException, ParseException):
        raise
    except Exception as error:
        frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename != __file__]
        place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        raise CallError(f"step {step}: {name} raised {type(error).__name__}: {error}{place}") from error


def load(step: str, name: str, directory: Path) -> Callable[..., Any]:
    """Load `module:attribute`; modules beside the file come first. Raises StepError."""
    module_name, _, attribute = name.partition(":")
    beside = str(directory.resolve())
    if beside not in sys.path:
        sys.path.insert(0, beside)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == module_name
        why = f"there is no {module_name}.py in {beside}" if missing else f"{type(error).__name__}: {error}"
        raise StepError(f"step {step}: module {module_name} cannot be imported: {why}") from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise StepError(f"step {step}: module {module_name} ({module.__file__}) has no function or class {attribute}")
    return found  # type: ignore[no-any-return]


def ship(directory: Path) -> None:
    """Send modules beside the file to Spark's Python processes by value, as those cannot import them."""
    beside = directory.resolve()
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).parent == beside and Path(file).suffix == ".py":
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
