"""The timers of a transaction shard: each key is also what `handle_timer` gets when it is due."""

from msgspec import Struct


class TimedOutTimer(Struct, frozen=True):
    """Time to look for transactions that go on for too long."""


class ExpiryTimer(Struct, frozen=True):
    """Time to look for transactional ids that nobody uses."""


class LoadedTimer(Struct, frozen=True):
    """Time to finish more of the transactions that were found decided when the shard was loaded."""


class MarkerTimer(Struct, frozen=True):
    """Time to write the markers again that could not be written."""

    transactional_id: str


TransactionTimer = TimedOutTimer | ExpiryTimer | LoadedTimer | MarkerTimer
