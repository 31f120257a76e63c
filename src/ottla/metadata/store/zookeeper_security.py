"""Who a process is to ZooKeeper, whether it speaks TLS, and for whom the nodes are that it creates."""

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ottla.security.tls_config import TlsConfig
from ottla.settings.definition import InvalidSettingError
from ottla.settings.value import SettingValue

_PREFIX: Final = "zookeeper."
_TLS_SETTING: Final = re.compile(r"(?<![\w./-])ssl\.(?=[a-z])")


class ZooKeeperSecurity(Struct, frozen=True):
    """Nobody, in plaintext, and nodes for everybody, unless said otherwise."""

    credentials: str | None = None
    """USER:PASSWORD. Nodes are for that user alone."""
    tls: TlsConfig | None = None
    sets_acl: bool = False
    """Nodes are for this process' identity alone: without credentials, the subject of its certificate."""

    def __repr__(self) -> str:
        return f"<ZooKeeperSecurity {'plaintext' if self.tls is None else 'TLS'}>"

    @property
    def owner(self) -> str:
        """Whom nodes are for, for people."""
        of_certificate = "the subject of zookeeper.ssl.keystore.location"
        return of_certificate if self.credentials is None else "the user of metadata.zookeeper.credentials"

    @classmethod
    def from_settings(cls, value_of: Callable[[str], SettingValue]) -> "ZooKeeperSecurity":
        """`value_of` gives the typed value of a broker setting."""
        credentials = value_of("metadata.zookeeper.credentials")
        assert credentials is None or isinstance(credentials, str)
        tls = None
        if value_of("zookeeper.ssl.client.enable"):
            tls = TlsConfig.from_settings(lambda name: _value(value_of, name))
        return cls(credentials, tls, bool(value_of("zookeeper.set.acl")))


NO_SECURITY: Final = ZooKeeperSecurity()


def _value(value_of: Callable[[str], SettingValue], name: str) -> SettingValue:
    """What Kafka calls `ssl.` elsewhere; some of that is not there for ZooKeeper."""
    if name == "ssl.key.password":
        name = "ssl.keystore.password"
    try:
        return value_of(_PREFIX + name)
    except KeyError:
        return None


def named_for_zookeeper(error: InvalidSettingError) -> InvalidSettingError:
    """The same complaint with the names that the settings have here."""
    return InvalidSettingError(_TLS_SETTING.sub(f"{_PREFIX}ssl.", error.message))
