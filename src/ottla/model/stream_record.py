"""How the records of a stream of Redis are told apart, which is a topic with the setting `redis.key`."""

from typing import Final

HEADER: Final = "redis"
MARK: Final = b"M"
"""The header of a record that says what became of the stream, its groups and its entries: nobody's message."""
