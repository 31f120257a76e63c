"""The `kafka.*` options of reads and writes: bootstrap brokers, timeouts, security."""

import os
from dataclasses import dataclass, field

from ottla.client.errors import InvalidOptionError
from ottla.client.options import ClientOptions
from ottla.client.sasl import ClientSasl
from ottla.client.tls import ClientTls
from ottla.model.security_protocol import SecurityProtocol
from pyspark_ottla.options import OptionError, Options

BOOTSTRAP = "kafka.bootstrap.servers"
BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"

_NUMBERS = {
    "kafka.request.timeout.ms": "request_timeout_ms",
    "kafka.default.api.timeout.ms": "api_timeout_ms",
    "kafka.retry.backoff.ms": "retry_backoff_ms",
    "kafka.retry.backoff.max.ms": "retry_backoff_max_ms",
    "kafka.metadata.max.age.ms": "metadata_max_age_ms",
    "kafka.socket.connection.setup.timeout.ms": "connect_timeout_ms",
}

_PROTOCOL = "kafka.security.protocol"
_TLS = {f"kafka.{field.replace('_', '.')}": field for field in ClientTls.__struct_fields__}
_SASL = {f"kafka.{field.replace('_', '.')}": field for field in ClientSasl.__struct_fields__}
del _SASL["kafka.sasl.oauthbearer.token"]  # a function does not travel to executors

CONNECTION_OPTIONS = (BOOTSTRAP, "kafka.client.id", _PROTOCOL, *_TLS, *_SASL, *_NUMBERS)


@dataclass(frozen=True, slots=True)
class Connection:
    """The settings of a client. Can be pickled; equal connections may share a client."""

    bootstrap: str
    settings: tuple[tuple[str, int | str], ...] = field(default=(), repr=False)
    """The client settings, passwords included: never log them."""

    @classmethod
    def of(cls, options: Options) -> "Connection":
        """The connection that the options describe; `OTTLA_BOOTSTRAP` of the environment is the default address.

        The variable is read on the driver, so executors need not have it.
        """
        bootstrap = options.text(BOOTSTRAP) or os.environ.get(BOOTSTRAP_VARIABLE, "").strip()
        if not bootstrap:
            raise OptionError(f"option {BOOTSTRAP} is missing: write HOST:PORT, or set {BOOTSTRAP_VARIABLE}")
        settings: dict[str, int | str] = {"client_id": options.text("kafka.client.id") or "ottla-spark"}
        settings |= {option: options.integer(name, 0) for name, option in _NUMBERS.items() if name in options}
        protocol = (options.text(_PROTOCOL) or SecurityProtocol.PLAINTEXT).upper()
        if protocol not in SecurityProtocol.__members__:
            raise OptionError(f"option {_PROTOCOL}: write {' or '.join(SecurityProtocol)}, not {protocol[:100]!r}")
        if protocol != SecurityProtocol.PLAINTEXT:
            asked = SecurityProtocol(protocol)
            settings["security_protocol"] = protocol
            names = {**(_TLS if asked.is_encrypted else {}), **(_SASL if asked.has_sasl else {})}
            settings |= {option: options.text(name) or "" for name, option in names.items() if name in options}
        connection = cls(bootstrap, tuple(settings.items()))
        connection.check()
        return connection

    def check(self) -> None:
        """Raises OptionError where the client would refuse these settings."""
        try:
            ClientOptions.of(self.bootstrap, **dict(self.settings))
        except InvalidOptionError as error:
            named = (
                "" if str(error).startswith(("ssl", "security", "a listener with SASL")) else f"option {BOOTSTRAP}: "
            )
            raise OptionError(f"{named}{error}") from None
