"""The broker settings of ZooKeeper, for metadata that lies there: who this broker is, and TLS (KIP-515)."""

from collections.abc import Mapping
from typing import Final

from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.broker_tls_table import STORE_TYPES, TLS_VERSIONS
from ottla.settings.definition import Importance, InvalidSettingError
from ottla.settings.validators import Length, NotEmpty, OneOf
from ottla.settings.value import SettingType, SettingValue

_BOOLEAN, _STRING, _LIST, _PASSWORD = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.LIST,
    SettingType.PASSWORD,
)
_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW

NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
NIO: Final = "org.apache.zookeeper.ClientCnxnSocketNIO"

ZOOKEEPER_SETTINGS: Final = (
    _setting(
        "metadata.zookeeper.credentials",
        _PASSWORD,
        None,
        Length(3),
        _MEDIUM,
        "USER:PASSWORD with which this broker authenticates to ZooKeeper (digest), the same on every broker. Only that "
        "user can then read or change what the cluster keeps there. Set it in a file, because everyone on the host "
        "sees a command line.",
    ),
    _setting(
        "zookeeper.set.acl",
        _BOOLEAN,
        "false",
        None,
        Importance.HIGH,
        "Whether all nodes in ZooKeeper are created for the identity of this broker alone: the subject of the "
        "certificate in zookeeper.ssl.keystore.location, the same on every broker. With metadata.zookeeper.credentials "
        "they are for that user alone in any case.",
    ),
    _setting(
        "zookeeper.ssl.client.enable",
        _BOOLEAN,
        "false",
        None,
        _MEDIUM,
        "Whether this broker speaks TLS with ZooKeeper, at the ports that are secureClientPort there.",
    ),
    _setting(
        "zookeeper.clientCnxnSocket",
        _STRING,
        None,
        OneOf((NETTY, NIO)),
        _MEDIUM,
        "Kafka's setting for how it connects to ZooKeeper. Only taken along: with zookeeper.ssl.client.enable it must "
        "not be the class that speaks no TLS.",
    ),
    _setting(
        "zookeeper.ssl.keystore.type",
        _STRING,
        None,
        OneOf(STORE_TYPES),
        _MEDIUM,
        "The format of the key store: PEM or PKCS12. Default: the file says which it is.",
    ),
    _setting(
        "zookeeper.ssl.keystore.location",
        _STRING,
        None,
        NotEmpty(),
        _MEDIUM,
        "The file with the private key and the certificate chain that this broker shows to ZooKeeper. It is read for "
        "each new connection.",
    ),
    _setting(
        "zookeeper.ssl.keystore.password",
        _PASSWORD,
        None,
        None,
        _MEDIUM,
        "The password of a PKCS12 key store, or of an encrypted private key in PEM.",
    ),
    _setting(
        "zookeeper.ssl.truststore.type",
        _STRING,
        None,
        OneOf(STORE_TYPES),
        _MEDIUM,
        "The format of the trust store, as for zookeeper.ssl.keystore.type.",
    ),
    _setting(
        "zookeeper.ssl.truststore.location",
        _STRING,
        None,
        NotEmpty(),
        _MEDIUM,
        "The file with the certificates of the authorities that ZooKeeper's servers are trusted by. Default: those of "
        "the operating system.",
    ),
    _setting(
        "zookeeper.ssl.truststore.password",
        _PASSWORD,
        None,
        None,
        _MEDIUM,
        "The password of a PKCS12 trust store.",
    ),
    _setting(
        "zookeeper.ssl.protocol",
        _STRING,
        "TLSv1.3",
        OneOf((*TLS_VERSIONS, "TLS")),
        _LOW,
        "The highest version of TLS that is spoken with ZooKeeper.",
    ),
    _setting(
        "zookeeper.ssl.enabled.protocols",
        _LIST,
        "TLSv1.2,TLSv1.3",
        OneOf(TLS_VERSIONS),
        _LOW,
        "The versions of TLS that are spoken with ZooKeeper.",
    ),
    _setting(
        "zookeeper.ssl.cipher.suites",
        _LIST,
        "",
        None,
        _LOW,
        "The cipher suites that are allowed with ZooKeeper, as for ssl.cipher.suites.",
    ),
    _setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        _STRING,
        "https",
        OneOf(("https", "HTTPS", "")),
        _LOW,
        "Whether the certificate of a ZooKeeper server must name the host it is reached at: https, or empty for no.",
    ),
)


def require_consistent_zookeeper(values: Mapping[str, SettingValue]) -> None:
    """Raises InvalidSettingError for settings that are good and do not fit together."""
    credentials, speaks_tls = values["metadata.zookeeper.credentials"], values["zookeeper.ssl.client.enable"]
    if isinstance(credentials, str) and not all(credentials.partition(":")):
        raise InvalidSettingError("metadata.zookeeper.credentials is not USER:PASSWORD")
    if speaks_tls and values["zookeeper.clientCnxnSocket"] == NIO:
        raise InvalidSettingError(
            f"zookeeper.clientCnxnSocket={NIO} speaks no TLS, but zookeeper.ssl.client.enable=true: leave it out"
        )
    if not speaks_tls and any(
        values[name] is not None for name in ("zookeeper.ssl.keystore.location", "zookeeper.ssl.truststore.location")
    ):
        raise InvalidSettingError(
            "zookeeper.ssl.client.enable=false leaves the connection to ZooKeeper in plaintext, but there is a key "
            "store or a trust store for it: set zookeeper.ssl.client.enable=true"
        )
    if values["zookeeper.set.acl"] and credentials is None and values["zookeeper.ssl.keystore.location"] is None:
        raise InvalidSettingError(
            "zookeeper.set.acl=true needs an identity that the nodes are for: set metadata.zookeeper.credentials, or "
            "zookeeper.ssl.client.enable=true with zookeeper.ssl.keystore.location"
        )
