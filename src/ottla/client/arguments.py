"""Checks what callers pass to the client, so that a mistake is named in the call that makes it.

Every check returns what it checked, in the one form that the client uses. It raises InvalidOptionError, whose message
says which argument is wrong, what it is, and what it must be.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from msgspec import Struct

from ottla.client.errors import InvalidOptionError
from ottla.model.errors import ApiError
from ottla.model.printable import printable
from ottla.model.topic_name import validate_topic_name
from ottla.model.topic_partition import TopicPartition

Kind = TypeVar("Kind")
Member = TypeVar("Member", bound=Enum)

SHOWN_MAX: Final = 100
"""Characters of a wrong value in a message."""
INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
EARLIEST_SPECIAL_OFFSET: Final = -6
"""The lowest of the special points that ListOffsets knows in place of a timestamp."""


def kind_name(given: object) -> str:
    """The type of a value, as a message names it."""
    return "None" if given is None else type(given).__name__


def shown(given: object) -> str:
    """A value as a message shows it: on one line, and not longer than the message."""
    if isinstance(given, int) and abs(given) > INT64_MAX:
        return "a larger number" if given > 0 else "a lower number"
    return printable(repr(given), SHOWN_MAX)


def instance_of(name: str, given: Any, kind: type[Kind], hint: str = "") -> Kind:
    """An object of this class."""
    if isinstance(given, kind):
        return given
    raise InvalidOptionError(f"{name} must be of type {kind.__name__}, not {kind_name(given)}{hint}")


def options_of(name: str, given: Any, kind: type[Kind]) -> Kind:
    """Options of this class; None means the defaults."""
    if given is None:
        return kind()
    return instance_of(name, given, kind, f": write {kind.__name__}(NAME=VALUE, ...)")


def member_of(kind: type[Member], option: str, given: Any) -> Member:
    """The member that an option names. Without this a plain string would compare unequal to every member."""
    if isinstance(given, kind):
        return given
    for member in kind:
        if given == member.value or (isinstance(given, str) and given.lower() == member.name.lower()):
            return member
    names = ", ".join(member.name.lower() for member in kind)
    raise InvalidOptionError(f"{option} must be one of {names}, not {shown(given)}")


def whole_number(name: str, given: Any, lowest: int = 0, highest: int = INT32_MAX) -> int:
    """A whole number within these bounds."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise InvalidOptionError(f"{name} must be a whole number, not {kind_name(given)}")
    if not lowest <= given <= highest:
        bound = f"at least {lowest}" if given < lowest else f"at most {highest}"
        raise InvalidOptionError(f"{name} must be {bound}, not {shown(given)}")
    return given


def flag(name: str, given: Any) -> bool:
    """True or false."""
    if not isinstance(given, bool):
        raise InvalidOptionError(f"{name} must be True or False, not {shown(given)}")
    return given


def text(name: str, given: Any) -> str:
    """A string that is not empty and can be sent."""
    if not isinstance(given, str):
        raise InvalidOptionError(f"{name} must be a string, not {kind_name(given)}")
    if not given:
        raise InvalidOptionError(f"{name} is empty")
    return encodable(name, given)


def encodable(name: str, given: str) -> str:
    """A string that has an encoding in UTF-8: a lone surrogate, as from a broken file name, has none."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InvalidOptionError(f"{name} {shown(given)} has characters that UTF-8 cannot encode") from None
    return given


def require_text(option: str, given: object) -> None:
    """Check an option that may be left out (None) and is a string otherwise."""
    if given is not None and not isinstance(given, str):
        raise InvalidOptionError(f"{option} must be a string, not {kind_name(given)}")


def function(name: str, given: Any) -> Callable[..., Any]:
    """Something that can be called."""
    if not callable(given):
        raise InvalidOptionError(f"{name} must be a function, not {kind_name(given)}")
    return given  # type: ignore[no-any-return]


def items_of(name: str, given: Any, what: str, example: str) -> list[Any]:
    """The items of a list, or of anything else that has items and is not one text."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        found = shown(given) if isinstance(given, str | bytes) else kind_name(given)
        raise InvalidOptionError(f"{name} must be a list of {what}, such as {example}, not {found}")
    return list(given)


def pairs_of(name: str, given: Any, what: str) -> dict[Any, Any]:
    """The items of a mapping."""
    if not isinstance(given, Mapping):
        raise InvalidOptionError(f"{name} must be a mapping of {what}, not {kind_name(given)}")
    return dict(given)


# --- topics, partitions, offsets ------------------------------------------------------------------------------------


def topic_name(given: Any) -> str:
    """A name that a topic can have."""
    if not isinstance(given, str):
        raise InvalidOptionError(f"a topic must be named by a string, not {kind_name(given)}")
    try:
        validate_topic_name(given)
    except ApiError as error:
        raise InvalidOptionError(error.message) from None
    return given


def topic_names(given: Any) -> list[str]:
    """Names of topics, at least one."""
    if isinstance(given, str | bytes):
        raise InvalidOptionError(f"topics must be a list of names, such as [{shown(given)}], not one name")
    names = [topic_name(each) for each in items_of("topics", given, "names", "['orders']")]
    if not names:
        raise InvalidOptionError("topics is empty: name at least one topic")
    return names


def partition_of(given: Any) -> TopicPartition:
    """A partition, from a pair of topic and number as well."""
    match given:
        case (str(topic), int(number)) if not isinstance(number, bool):
            return TopicPartition(topic_name(topic), whole_number(f"the partition number of {shown(topic)}", number))
        case _:
            raise InvalidOptionError(f"a partition must be a TopicPartition(topic, number), not {shown(given)}")


def partitions_of(given: Any) -> list[TopicPartition]:
    """Partitions, from pairs of topic and number as well."""
    if isinstance(given, TopicPartition):
        raise InvalidOptionError(f"topic_partitions must be a list of partitions, such as [{shown(given)}], not one")
    items = items_of("topic_partitions", given, "partitions", "[TopicPartition('orders', 0)]")
    return [partition_of(each) for each in items]


def offsets_of(name: str, given: Any, lowest: int = 0) -> dict[TopicPartition, int]:
    """An offset, or a timestamp in ms since 1970, of each partition."""
    pairs = pairs_of(name, given, "partitions and whole numbers, such as {TopicPartition('orders', 0): 42}")
    found = {}
    for each, number in pairs.items():
        partition = partition_of(each)
        found[partition] = whole_number(f"{name} of {partition}", number, lowest, INT64_MAX)
    return found


# --- options --------------------------------------------------------------------------------------------------------


def check_kinds(options: Struct, *, wide: Iterable[str] = ()) -> None:
    """Check each field of options whose default is a number, a string or a flag: it is of that kind, and not negative.

    Numbers go up to 2**31 - 1, those named by `wide` up to 2**63 - 1.
    """
    fields, defaults = options.__struct_fields__, options.__struct_defaults__
    for name, default in zip(fields[len(fields) - len(defaults) :], defaults, strict=True):
        given = getattr(options, name)
        if type(default) is bool:
            flag(name, given)
        elif type(default) is int:
            whole_number(name, given, 0, INT64_MAX if name in wide else INT32_MAX)
        elif type(default) is str:
            require_text(name, "" if given is None else given)
