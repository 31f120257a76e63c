"""Replacing an attribute of a class or a module for a while: how a bug is planted, and a thread kept out."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def replaced(owner: object, name: str, value: Any) -> Iterator[None]:
    """Within the block `owner.name` is `value`; `owner` is a class, or a module by its name.

    Raises AttributeError for what is not there: it would replace nothing that is used.
    """
    target = import_module(owner) if isinstance(owner, str) else owner
    before = vars(target).get(name)
    is_own = name in vars(target)
    getattr(target, name)
    setattr(target, name, value)
    try:
        yield
    finally:
        if is_own:
            setattr(target, name, before)
        else:
            delattr(target, name)
