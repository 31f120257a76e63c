"""The responses of one connection, in the order of its requests.

    slots   [ r1 open ][ r2 answered ][ r3 open ][ r4 answered ]      nothing leaves: r1 is first
            r1 is answered: r1 and r2 leave, r3 is first

A slot is made for each request as it arrives and filled whenever its handler is done.
"""

from collections.abc import Callable, Sequence

from ottla.network.file_slice import FileSlice

Buffer = bytes | bytearray | memoryview
Part = Buffer | FileSlice

SLICE_COST = 128
"""What a slice of a file that waits counts for in bytes of memory."""


class ResponseSlot:
    """The place of one request's response.

    It is filled once, at any time. After the connection has been closed it may still be filled, to no effect.
    """

    __slots__ = ("_parts", "_queue", "held_bytes")

    def __init__(self, queue: "ResponseQueue") -> None:
        self._queue = queue
        self._parts: Sequence[Part] | None = None
        self.held_bytes = 0
        """Bytes of memory the answer takes while an earlier request is not answered."""

    @property
    def is_filled(self) -> bool:
        """Whether the request has been answered."""
        return self._parts is not None

    def send(self, parts: Sequence[Part]) -> None:
        """Answer with these bytes, one after the other, the 4-byte length included. They must stay as they are."""
        assert self._parts is None, "a request is answered once"
        self._parts = parts
        queue = self._queue
        if not queue.slots:
            return
        if queue.slots[0] is self:
            queue.release()
        else:
            queue.hold(self, parts)

    def skip(self) -> None:
        """There is no response to this request."""
        self.send(())


class ResponseQueue:
    """The open slots of a connection, oldest first."""

    __slots__ = ("_on_held", "_on_response", "held_bytes", "slots")

    def __init__(self, on_response: Callable[[Sequence[Part]], None], on_held: Callable[[int], None]) -> None:
        """`on_response` gets what leaves, `on_held` by how much the bytes held change."""
        self._on_response = on_response
        self._on_held = on_held
        self.held_bytes = 0
        """Bytes of memory in answers that wait for an earlier one."""
        self.slots: list[ResponseSlot] = []

    def __len__(self) -> int:
        return len(self.slots)

    def open(self) -> ResponseSlot:
        """A slot for the request that has just arrived."""
        slot = ResponseSlot(self)
        self.slots.append(slot)
        return slot

    def release(self) -> None:
        """Let go of the filled slots up to the first open one."""
        slots = self.slots
        count = 0
        for slot in slots:
            parts = slot._parts
            if parts is None:
                break
            count += 1
            if slot.held_bytes:
                self._change_held(-slot.held_bytes)
            self._on_response(parts)
        del slots[:count]

    def hold(self, slot: ResponseSlot, parts: Sequence[Part]) -> None:
        """An answer has to wait for an earlier one."""
        slot.held_bytes = sum(SLICE_COST if isinstance(part, FileSlice) else len(part) for part in parts)
        self._change_held(slot.held_bytes)

    def clear(self) -> None:
        """Forget every slot; what they are filled with goes nowhere."""
        self.slots.clear()
        self._change_held(-self.held_bytes)

    def _change_held(self, by: int) -> None:
        self.held_bytes += by
        self._on_held(by)
