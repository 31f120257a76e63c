"""The keys of records: few, so that compaction has something to take away, and known from the value."""

from workload.payload import Payload

KEYS = 64


def key_of(payload: Payload) -> bytes:
    """The key that a record with this value was given."""
    return b"k%d" % (payload.number % KEYS)
