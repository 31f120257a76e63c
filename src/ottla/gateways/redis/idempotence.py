"""What producers have added with ids of their own (IDMP, IDMPAUTO): the same again adds nothing.

producer -> idempotent id -> id of the entry, when        oldest out beyond a number of each producer, or a time
"""

from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.gateways.redis.stream import Stream

DURATION_S: Final = 100
DURATION_MAX_S: Final = 86_400
SIZE: Final = 100
SIZE_MAX: Final = 10_000

Key = tuple[bytes, bytes]
"""Producer and idempotent id."""


class Idempotence:
    """Of one stream."""

    __slots__ = ("_known", "added", "duplicates", "duration_s", "size")

    def __init__(self) -> None:
        self.duration_s = DURATION_S
        self.size = SIZE
        self.added = 0
        self.duplicates = 0
        self._known: dict[bytes, OrderedDict[bytes, tuple[int, int]]] = {}

    @property
    def producers(self) -> int:
        """How many producers are known."""
        return len(self._known)

    @property
    def tracked(self) -> int:
        """How many ids are known."""
        return sum(map(len, self._known.values()))

    @staticmethod
    def key_of(producer: bytes, idempotent_id: bytes, fields: list[bytes]) -> Key:
        """Producer and id; an empty one is made of the fields, and does not depend on their order."""
        if idempotent_id:
            return producer, idempotent_id
        pairs = sorted(zip(fields[::2], fields[1::2], strict=True))
        text = b"".join(b"%d:%b%d:%b" % (len(name), name, len(value), value) for name, value in pairs)
        return producer, sha256(text).digest()

    def find(self, key: Key, now_ms: int) -> int | None:
        """The entry that was added with an id, as long as that is remembered."""
        self.expire(key[0], now_ms)
        known = self._known.get(key[0])
        found = None if known is None else known.get(key[1])
        if found is None:
            return None
        self.duplicates += 1
        return found[0]

    def remember(self, stream: "Stream", key: Key, entry_id: int, now_ms: int) -> None:
        """An entry is added; the stream keeps that."""
        from ottla.gateways.redis.stream_id import id_bytes
        from ottla.gateways.redis.stream_records import Remembered

        stream.mark(now_ms, Remembered(*key, id_bytes(entry_id), now_ms))

    def add(self, key: Key, entry_id: int, now_ms: int) -> None:
        """An entry was added."""
        known = self._known.setdefault(key[0], OrderedDict())
        known[key[1]] = entry_id, now_ms
        self.added += 1
        while len(known) > self.size:
            known.popitem(last=False)

    def recall(self, now_ms: int) -> "dict[bytes, list[tuple[bytes, int, int]]]":
        """What is remembered of each producer: id, entry, when."""
        for producer in tuple(self._known):
            self.expire(producer, now_ms)
        return {producer: [(each, *known[each]) for each in known] for producer, known in self._known.items()}

    def restore(self, key: Key, entry_id: int, added_ms: int) -> None:
        """An entry was added, and counted then."""
        self._known.setdefault(key[0], OrderedDict())[key[1]] = entry_id, added_ms

    def forget(self) -> None:
        """Nothing is remembered."""
        self._known = {}

    def expire(self, producer: bytes, now_ms: int) -> None:
        """Forget what is too old."""
        known = self._known.get(producer)
        while known:
            first = next(iter(known))
            if known[first][1] + self.duration_s * 1000 > now_ms:
                return
            del known[first]
        self._known.pop(producer, None)

    def configure(self, duration_s: int, size: int) -> None:
        """Other limits; what was known is forgotten where they differ."""
        if (duration_s, size) != (self.duration_s, self.size):
            self.duration_s, self.size = duration_s, size
            self._known = {}
