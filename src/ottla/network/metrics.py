"""What a listener counts."""


class NetworkMetrics:
    """Plain numbers of one listener, read by whoever shows them. All but the first two only grow."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "connections_accepted",
        "connections_open",
        "connections_refused",
        "out_bytes",
        "requests",
    )

    def __init__(self) -> None:
        self.connections_open = 0
        self.out_bytes = 0
        """Bytes of responses in memory that no socket has taken yet."""
        self.connections_accepted = 0
        self.connections_refused = 0
        """Closed at once because of a limit."""
        self.bytes_in = 0
        self.bytes_out = 0
        self.requests = 0
