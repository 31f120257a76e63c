"""What a client may do, as the bits in which Kafka's answers have it (KIP-430): bit n is the operation numbered n."""

from typing import Final

from ottla.broker.access import OPERATIONS, Operation

NOT_ASKED: Final = -(2**31)
"""The value of the field when the client did not ask."""


def operation_bits(operations: tuple[Operation, ...]) -> int:
    """The field's value."""
    for every, bits in _EVERYTHING:
        if operations is every:  # asked for each of thousands of topics, mostly by clients that may do everything
            return bits
    return _bits(operations)


def _bits(operations: tuple[Operation, ...]) -> int:
    return sum(1 << operation for operation in operations)


_EVERYTHING: Final = tuple((every, _bits(every)) for every in OPERATIONS.values())
