"""Finds functions that a pipeline file names as `module:function`, without running their code."""

import ast
import importlib.util
import re
from pathlib import Path

_TARGET = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")


class FunctionError(ValueError):
    """A function that does not exist: message and hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def find_function(target: str, directory: Path) -> tuple[str, str]:
    """Module and name of `module:name`. Raises FunctionError for another form, or if it does not exist.

    A module beside the file is read, but not run: what it defines by other means than `def`, `class`, `import` and
    assignment at its top is not seen. Of an installed module only the package is looked for.
    """
    match = _TARGET.fullmatch(target)
    if match is None:
        raise FunctionError(f"{target!r} names no function", "write it as module:function")
    module, name = match[1], match[2]
    path = directory.joinpath(*module.split("."))
    for file in (path.with_name(path.name + ".py"), path / "__init__.py"):
        if file.is_file():
            _look_into(file, name)
            return module, name
    top = module.partition(".")[0]
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        found = None
    if found is None and not (directory / top).is_dir():
        raise FunctionError(f"there is no module {module}", f"write {path.name}.py beside the file, or install it")
    return module, name


def _look_into(file: Path, name: str) -> None:
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except SyntaxError as error:
        raise FunctionError(f"{file.name} is not Python: {error.msg}", f"look at its line {error.lineno}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise FunctionError(f"{file.name} cannot be read: {error}") from None
    defined: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                defined.add(node.name)
            case ast.Name(ctx=ast.Store()):
                defined.add(node.id)
            case ast.ImportFrom() | ast.Import():
                defined |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            case _:
                pass
    if name not in defined and "*" not in defined:
        raise FunctionError(f"{file.name} has no {name}", f"it must define it: def {name}(...)")
