"""The epochs of a member of the new group protocols that mean something else than how far it has come (KIP-848)."""

from typing import Final

JOIN_GROUP: Final = 0
"""It joins, or joins again after it was fenced, and owns nothing."""

LEAVE_GROUP: Final = -1
"""It leaves for good. Also the epoch of who commits without being a member."""

LEAVE_GROUP_STATIC: Final = -2
"""A static member goes away and will be back: its work is kept for it until its session ends."""
