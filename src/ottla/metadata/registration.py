"""What a broker says of itself when it registers: JSON in its session, read by whoever is the controller.

    {"version":1,"host":"b1","port":9092,"rack":"r1","endpoints":{"PLAINTEXT":["b1",9092]},"incarnation":"5f0e...",
     "directories":["8c2d..."],"previous_epoch":17,"clean_since":9,"flush":true,"min_isr":1,"between":"PLAINTEXT"}

Fields that a reader does not know are passed over, those that a writer did not know have their defaults: releases that
follow each other stand side by side during a rolling upgrade.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct, ValidationError, convert, to_builtins

from ottla.model.errors import InvalidInputError

VERSION: Final = 1

UNCLEAN: Final = -1
"""The previous epoch of a broker that did not stop cleanly, or never ran."""


class BrokerRegistration(Struct, frozen=True, kw_only=True):
    """A broker as it registers. A host of None means: at the address by which each client came."""

    host: str | None
    port: int
    rack: str | None = None
    endpoints: Mapping[str, tuple[str, int]] = MappingProxyType({})
    """The address of each listener, by the name of the listener."""
    incarnation: str = ""
    """A UUID drawn anew by each process."""
    directories: tuple[str, ...] = ()
    """The ids of its log directories, in the order of `log.dirs`."""
    previous_epoch: int = UNCLEAN
    """The newest broker epoch its directories were used with, when it stopped cleanly."""
    clean_since: int = UNCLEAN
    """The broker epoch since which it lost nothing: of its first session after the last unclean stop."""
    flush: bool = True
    """Whether it flushed to disk before it acknowledged."""
    min_isr: int | None = None
    """Its own `min.insync.replicas`, for topics that have none; None of a release that did not say."""
    between: str | None = None
    """The name of the listener by which it reaches other brokers."""
    version: int = VERSION

    def encode(self) -> bytes:
        """The bytes kept in the session."""
        said = {name: getattr(self, name) for name in self.__struct_fields__}
        return json.dumps(to_builtins({**said, "endpoints": dict(self.endpoints)}), separators=(",", ":")).encode()

    @property
    def directory_token(self) -> bytes:
        """What tells the next process of this broker from another one that was given the same id."""
        return (self.directories[0] if self.directories else self.incarnation).encode()


def decode_registration(data: bytes) -> BrokerRegistration:
    """The reverse of `encode`. Raises InvalidInputError."""
    try:
        return convert(json.loads(data), BrokerRegistration)
    except (ValueError, ValidationError) as error:
        raise InvalidInputError(f"the registration of a broker is broken: {error}") from error
