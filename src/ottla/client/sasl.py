"""How a client logs in: Kafka's `sasl.` settings, with underscores.

    ClientOptions.of("kafka.example:9092", security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512",
                     sasl_username="anna", sasl_password=password)

A JAAS line of Kafka's says the same: `sasl_jaas_config`.
"""

from functools import lru_cache
from typing import Final

from msgspec import Struct

from ottla.client.arguments import check_kinds
from ottla.client.errors import InvalidOptionError
from ottla.model.sasl import GSSAPI, PLAIN, SASL_MECHANISMS, SCRAM_SHA_512
from ottla.settings.jaas import JaasError, mechanism_of, parse_jaas

_SALTED_MAX: Final = 64


class ClientSasl(Struct, frozen=True, kw_only=True):
    """Who the client is, and by which mechanism it proves that."""

    sasl_mechanism: str = ""
    """PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty for what the JAAS line is for, or SCRAM-SHA-512."""
    sasl_username: str = ""
    sasl_password: str = ""
    sasl_jaas_config: str = ""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.sasl_mechanism == GSSAPI:
            raise InvalidOptionError(
                f"sasl_mechanism GSSAPI (Kerberos) is not supported; there are {', '.join(SASL_MECHANISMS)}"
            )
        if self.sasl_mechanism not in ("", *SASL_MECHANISMS):
            raise InvalidOptionError(
                f"sasl_mechanism must be {' or '.join(SASL_MECHANISMS)}, not {self.sasl_mechanism[:100]!r}"
            )
        user, password = self.credentials
        if not user or not password:
            raise InvalidOptionError("a listener with SASL needs sasl_username and sasl_password, or sasl_jaas_config")

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"<ClientSasl {self.mechanism} as {self.credentials[0]!r}>"

    @property
    def mechanism(self) -> str:
        """By which it logs in."""
        if self.sasl_mechanism:
            return self.sasl_mechanism
        return mechanism_of(parse_jaas(self.sasl_jaas_config)) if self.sasl_jaas_config else SCRAM_SHA_512

    @property
    def credentials(self) -> tuple[str, str]:
        """The name and the password."""
        if not self.sasl_jaas_config:
            return self.sasl_username, self.sasl_password
        try:
            entry = parse_jaas(self.sasl_jaas_config)
        except JaasError as error:
            raise InvalidOptionError(f"sasl_jaas_config {error}") from None
        is_plain = entry.module == "PlainLoginModule"
        if self.sasl_mechanism and is_plain != (self.sasl_mechanism == PLAIN):
            raise InvalidOptionError(f"sasl_jaas_config has {entry.module}, which is not for {self.sasl_mechanism}")
        return entry.options.get("username", ""), entry.options.get("password", "")


@lru_cache(_SALTED_MAX)
def salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """What follows from a password, remembered: a client logs in to each broker, and again now and then."""
    from ottla.security.scram import MECHANISMS, salted_password

    return salted_password(MECHANISMS[mechanism], password.encode(), salt, iterations)
