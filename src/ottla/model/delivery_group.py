"""The groups by which delay topics keep how far they are: one for each delay topic, named after it.

Their offsets do not expire. Without them everything that is still in the log would be delivered once more.
"""

from typing import Final

_PREFIX: Final = "ottla.deliver."


def delivery_group(topic: str) -> str:
    """The group of a delay topic."""
    return _PREFIX + topic


def is_delivery_group(group_id: str) -> bool:
    """Whether a group is one of them."""
    return group_id.startswith(_PREFIX)
