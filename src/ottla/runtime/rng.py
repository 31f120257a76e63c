"""Chance. Everything that draws lots takes an `Rng`, so that a seed replays a run."""

import random
import uuid
from typing import Protocol


class Rng(Protocol):
    """A source of random values."""

    def uuid(self) -> uuid.UUID:
        """A version 4 UUID. In URL-safe base64, the form in which Kafka writes ids, it does not start with a dash, so
        that no command takes it for an option.
        """
        ...

    def random(self) -> float:
        """A float in [0, 1)."""
        ...

    def randbelow(self, limit: int) -> int:
        """An integer in [0, limit)."""
        ...

    def uniform(self, low: float, high: float) -> float:
        """A float between `low` and `high`."""
        ...

    def token_bytes(self, count: int) -> bytes:
        """`count` random bytes. Fit for secrets only from `SystemRng`."""
        ...


class _RandomRng:
    """An `Rng` over one of the standard library's generators."""

    __slots__ = ("_random",)

    def __init__(self, generator: random.Random) -> None:
        self._random = generator

    def uuid(self) -> uuid.UUID:
        while True:
            candidate = uuid.UUID(bytes=self.token_bytes(16), version=4)
            if candidate.bytes[0] >> 2 != _DASH:
                return candidate

    def random(self) -> float:
        return self._random.random()

    def randbelow(self, limit: int) -> int:
        return self._random.randrange(limit)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def token_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


_DASH = 62
"""The value that URL-safe base64 writes as "-"."""


class SystemRng(_RandomRng):
    """The operating system's randomness: fit for ids and secrets. Safe to use from any thread."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(random.SystemRandom())


class SeededRng(_RandomRng):
    """The same values for the same seed, for tests and simulation. Not for secrets."""

    __slots__ = ()

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed))
