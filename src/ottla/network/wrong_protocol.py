"""What a peer seems to speak whose first bytes are no length of a request."""

_TLS_HANDSHAKE = b"\x16\x03"
_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"HTTP", b"PRI ")


def describe(first_bytes: bytes, length: int, max_bytes: int) -> str:
    """One line for the log: what was received, what it may be, what to do.

    >>> describe(b"GET / HTTP/1.1", 0x47455420, 104857600)
    'the peer speaks HTTP on a port of the Kafka protocol'
    """
    if first_bytes.startswith(_TLS_HANDSHAKE):
        return "the peer begins a TLS handshake on a plaintext port; set its security.protocol to PLAINTEXT"
    if first_bytes.startswith(_HTTP):
        return "the peer speaks HTTP on a port of the Kafka protocol"
    if length < 0:
        return f"a request announces a negative length ({length}); the peer does not speak the Kafka protocol"
    return f"a request of {length} bytes is larger than socket.request.max.bytes ({max_bytes})"
