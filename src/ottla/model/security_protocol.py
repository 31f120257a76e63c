"""How a listener and its clients speak: whether what they send is encrypted, and whether clients log in (SASL)."""

from enum import StrEnum


class SecurityProtocol(StrEnum):
    """Kafka's four, by the names they have in its settings."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_encrypted(self) -> bool:
        """Whether it is TLS that carries the bytes."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether a client proves by SASL who it is, before anything else."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
