"""`dataclass` of the standard library, whose methods are compiled when they are first used.

The library's decorator compiles up to seven methods a class, for half a millisecond a class, used or not. A broker
imports 250 such classes before it is ready, and calls the methods of a few dozen. Here a class gets stand-ins:

    class made            __slots__, __match_args__, and stand-ins for __init__, __repr__, __eq__, __hash__
    first instance        __init__ is compiled and takes the place of its stand-in
    first other method    the library makes the rest, and its methods take the place of theirs

From then on an instance costs what the library's costs. `dataclasses.fields`, `replace` and `asdict` work as always.
Differences: every class has slots, and there is no ordering.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

__all__ = ["dataclass", "field_defaults"]

T = TypeVar("T")

_LEFT_TO_THE_LIBRARY = ("__repr__", "__eq__", "__hash__")


def field_defaults(data_class: type[Any]) -> Mapping[str, object]:
    """The defaults in the body of a class made by `dataclass`, by field; a factory stands as its `Field`."""
    defaults: Mapping[str, object] = data_class.__field_defaults__
    return defaults


def _dataclass(
    *, frozen: bool = False, slots: bool, eq: bool = True, kw_only: bool = False, weakref_slot: bool = False
) -> Callable[[type[T]], type[T]]:
    assert slots, "a lazy data class has slots"

    def decorate(declared: type[T]) -> type[T]:
        made: type[T] = _make(declared, frozen=frozen, eq=eq, kw_only=kw_only, weakref_slot=weakref_slot)
        return made

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


def _make(declared: type[Any], *, frozen: bool, eq: bool, kw_only: bool, weakref_slot: bool) -> Any:
    """The class with slots, and stand-ins for what it does not define itself."""
    own = _annotations(declared)
    namespace = {name: value for name, value in vars(declared).items() if name not in ("__dict__", "__weakref__")}
    defaults = {name: namespace.pop(name) for name in own if name in namespace}
    fields = own
    base: Any
    for base in declared.__bases__:
        if hasattr(base, "__field_types__"):
            fields, defaults = {**base.__field_types__, **own}, {**base.__field_defaults__, **defaults}
    namespace["__qualname__"] = declared.__qualname__
    namespace["__slots__"] = (*own, "__weakref__") if weakref_slot else tuple(own)
    namespace["__field_types__"], namespace["__field_defaults__"] = fields, defaults
    namespace["__getstate__"], namespace["__setstate__"] = _get_state, _set_state
    namespace["__match_args__"] = () if kw_only else tuple(name for name in fields if _is_given(defaults, name))
    if frozen:
        namespace["__setattr__"], namespace["__delattr__"] = _refuse_to_set, _refuse_to_delete
    metaclass: Any = type(declared)
    made = metaclass(declared.__name__, declared.__bases__, namespace)
    stand_ins = [name for name in _LEFT_TO_THE_LIBRARY if name not in namespace and (eq or name == "__repr__")]
    if eq and not frozen and "__hash__" in stand_ins:
        stand_ins.remove("__hash__")
        made.__hash__ = None

    def complete() -> None:
        """Put what the standard library makes of these fields in the place of the stand-ins."""
        bare: Any = type(made.__name__, (), {"__annotations__": fields, **defaults})
        full = dataclasses.dataclass(init=False, eq=eq, frozen=frozen, kw_only=kw_only)(bare)
        made.__dataclass_params__, made.__dataclass_fields__ = full.__dataclass_params__, full.__dataclass_fields__
        for name in stand_ins:
            setattr(made, name, vars(full)[name])

    for name in stand_ins:
        setattr(made, name, _stand_in(made, name, complete))
    made.__dataclass_fields__ = _LazyFields(complete)
    if "__init__" not in namespace:

        def first_init(self: object, *args: Any, **kwargs: Any) -> None:
            made.__init__ = _compile_init(made, frozen=frozen, kw_only=kw_only)
            made.__init__(self, *args, **kwargs)

        made.__init__ = first_init
    return made


def _annotations(declared: type) -> dict[str, Any]:
    """The fields in the body of a class, with their types."""
    found = vars(declared).get("__annotations__") or inspect.get_annotations(declared)
    return {name: annotation for name, annotation in found.items() if not _is_class_variable(annotation)}


def _is_class_variable(annotation: object) -> bool:
    if isinstance(annotation, str):
        return annotation.startswith("ClassVar")
    return annotation is ClassVar or getattr(annotation, "__origin__", None) is ClassVar


def _is_given(defaults: Mapping[str, object], name: str) -> bool:
    """Whether a field is a parameter of `__init__`."""
    default = defaults.get(name)
    return default.init if isinstance(default, dataclasses.Field) else True


def _compile_init(made: Any, *, frozen: bool, kw_only: bool) -> Callable[..., None]:
    """The `__init__` of a class, as one would write it by hand.

    A frozen class is filled through the descriptors of its slots, which go past its `__setattr__`.
    """
    defaults = field_defaults(made)
    scope: dict[str, Any] = {}
    parameters: list[str] = ["*"] if kw_only and made.__field_types__ else []
    body: list[str] = []
    for name in made.__field_types__:
        default = defaults.get(name, dataclasses.MISSING)
        factory: Any = dataclasses.MISSING
        if isinstance(default, dataclasses.Field):
            factory, default = default.default_factory, default.default
        value = name
        if not _is_given(defaults, name):
            if default is dataclasses.MISSING and factory is dataclasses.MISSING:
                continue
            value = f"_make_{name}()" if default is dataclasses.MISSING else f"_default_{name}"
        elif factory is not dataclasses.MISSING:
            parameters.append(f"{name}=_missing")
            value = f"_make_{name}() if {name} is _missing else {name}"
        else:
            parameters.append(name if default is dataclasses.MISSING else f"{name}=_default_{name}")
        scope[f"_default_{name}"], scope[f"_make_{name}"] = default, factory
        scope[f"_set_{name}"] = getattr(made, name).__set__
        body.append(f"_set_{name}(self, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    scope["_missing"] = dataclasses.MISSING
    source = f"def __init__(self, {', '.join(parameters)}):\n " + ("\n ".join(body) or "pass")
    exec(source, scope)  # noqa: S102 (the names are those of a class in this package)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


def _stand_in(made: type, name: str, complete: Callable[[], None]) -> Callable[..., Any]:
    def method(self: object, *args: Any) -> Any:
        complete()
        return getattr(made, name)(self, *args)

    return method


class _LazyFields:
    """Stands for `__dataclass_fields__` until somebody looks."""

    def __init__(self, complete: Callable[[], None]) -> None:
        self._complete = complete

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, dataclasses.Field[Any]]:
        self._complete()
        fields: dict[str, dataclasses.Field[Any]] = owner.__dataclass_fields__
        return fields


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__field_types__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__field_types__, state, strict=True):
        object.__setattr__(self, name, value)
