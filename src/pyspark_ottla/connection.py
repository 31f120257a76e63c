"""Where the brokers are and how patient to be with them: the `kafka.*` options that both sides share."""

import os
from dataclasses import dataclass

from ottla.client.errors import InvalidOptionError
from ottla.client.options import ClientOptions
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

CONNECTION_OPTIONS = (BOOTSTRAP, "kafka.client.id", "kafka.security.protocol", *_NUMBERS)


@dataclass(frozen=True, slots=True)
class Connection:
    """What a client of the cluster is made from. A value that can be pickled; equal connections may share a client."""

    bootstrap: str
    settings: tuple[tuple[str, int | str], ...] = ()

    @classmethod
    def of(cls, options: Options) -> "Connection":
        """Taken from the options; the environment variable `OTTLA_BOOTSTRAP` stands in for the address.

        The variable is read on the driver, so executors need not have it.
        """
        bootstrap = options.text(BOOTSTRAP) or os.environ.get(BOOTSTRAP_VARIABLE, "").strip()
        if not bootstrap:
            raise OptionError(f"option {BOOTSTRAP} is missing: write HOST:PORT, or set {BOOTSTRAP_VARIABLE}")
        options.require("kafka.security.protocol", ("plaintext",))
        settings: dict[str, int | str] = {"client_id": options.text("kafka.client.id") or "ottla-spark"}
        for name, field in _NUMBERS.items():
            if name in options:
                settings[field] = options.integer(name, 0)
        connection = cls(bootstrap, tuple(settings.items()))
        connection.check()
        return connection

    def check(self) -> None:
        """Raises OptionError where the client would refuse these settings."""
        try:
            ClientOptions.of(self.bootstrap, **dict(self.settings))
        except InvalidOptionError as error:
            raise OptionError(f"option {BOOTSTRAP}: {error}") from None
