"""What a peer seems to speak whose first bytes are no length of a request, or no TLS."""

_TLS_HANDSHAKE = b"\x16\x03"
_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"HTTP", b"PRI ")


def describe(first_bytes: bytes, length: int, max_bytes: int, limit: str = "socket.request.max.bytes") -> str:
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
    return f"a request of {length} bytes is larger than {limit} ({max_bytes})"


def describe_instead_of_tls(first_bytes: bytes) -> str | None:
    """One line for the log when what was received at a listener of TLS is none; empty for nothing, which is what a
    probe sends that only connects. None when it may be TLS.

    >>> describe_instead_of_tls(b"\\x00\\x00\\x00\\x1f\\x00\\x12\\x00\\x03")
    'the peer speaks plaintext on a TLS listener; set its security.protocol to SSL, or SASL_SSL'
    """
    if first_bytes[:1] == _TLS_HANDSHAKE[:1]:
        return None
    if not first_bytes:
        return ""
    if first_bytes.startswith(_HTTP):
        return "the peer speaks HTTP without TLS on a TLS listener"
    return "the peer speaks plaintext on a TLS listener; set its security.protocol to SSL, or SASL_SSL"
