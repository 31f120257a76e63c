"""Why a handshake failed, in words that say what to do; OpenSSL has reasons, the peer sends alerts."""

import ssl
from types import MappingProxyType
from typing import Final

_OF_A_CLIENT: Final = MappingProxyType(
    {
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate, and ssl.client.auth is required",
        "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the authority of this broker's certificate: it needs it "
        "in its ssl.truststore",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refuses this broker's certificate: it does not trust it, or the "
        "certificate does not name the host that it connected to",
        "SSLV3_ALERT_BAD_CERTIFICATE": "the client refuses this broker's certificate: it may not name the host that "
        "the client connected to",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client refuses this broker's certificate, which has expired",
        "UNSUPPORTED_PROTOCOL": "the client speaks no version of ssl.enabled.protocols",
        "NO_SHARED_CIPHER": "the client and the broker have no cipher suite in common",
        "WRONG_VERSION_NUMBER": "what the client sends is not TLS",
        "HTTP_REQUEST": "the client speaks HTTP without TLS",
    }
)


def why_client_failed(error: OSError | ValueError) -> str:
    """One line for the log of a broker."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the client is not believed: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "the client hung up in the handshake; it may not trust this broker's certificate"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return _OF_A_CLIENT.get(reason, f"the handshake failed: {reason}")
    return f"the handshake failed: {error}"


def why_server_failed(error: BaseException) -> str:
    """The same for a client."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {error.verify_message}; see ssl.truststore.location"
    if isinstance(error, ssl.SSLEOFError | ConnectionError):
        return (
            "it ended the connection in the TLS handshake; is it a listener with TLS, or does it want a certificate of "
            "the client (ssl.keystore.location)?"
        )
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
            return "what it answers is not TLS: its listener is PLAINTEXT; set security.protocol to PLAINTEXT"
        if reason in ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"):
            return f"it wants a certificate of the client: set ssl.keystore.location ({reason})"
        if "ALERT" in reason:
            return f"it refused the TLS handshake: {reason}; its log says why"
        return f"the TLS handshake failed: {reason}"
    return f"the TLS handshake failed: {error}"
