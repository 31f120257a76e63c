"""How members settle records: the acknowledge types of ShareAcknowledge (KIP-932, KIP-1222), and runs of records."""

from typing import Final

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)

AVAILABLE: Final = 0
ACQUIRED: Final = 1
ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4
"""The states of records, of which all but the second are stored; the last two are never delivered again."""

Run = tuple[int, int, int, int]
"""First and last offset, state and delivery count."""

Settled = tuple[int, int, int]
"""First and last offset, and how the records are settled."""
