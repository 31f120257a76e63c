"""How many bytes of unfinished requests the connections of a gateway may hold together."""


class ByteBudget:
    """Belongs to the event loop."""

    __slots__ = ("bytes_max", "used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        """Bytes that are held now."""

    def move(self, before: int, after: int) -> bool:
        """A connection holds `after` bytes now. False when all together hold too many, and it holds more than before:
        it should end.
        """
        self.used += after - before
        return after <= before or self.used <= self.bytes_max
