"""The broker settings of TLS. Each may be set for one listener alone: `listener.name.NAME.ssl.keystore.location`."""

from typing import Final

from ottla.model.security_protocol import SecurityProtocol
from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.definition import Importance, SettingDefinition, UpdateMode
from ottla.settings.validators import NotEmpty, OneOf, Validator
from ottla.settings.value import SettingType

_BOOLEAN, _STRING, _LIST, _PASSWORD = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.LIST,
    SettingType.PASSWORD,
)
_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")


def _tls(
    name: str, kind: SettingType, default: str | None, validator: Validator | None, importance: Importance, text: str
) -> SettingDefinition:
    return _setting(name, kind, default, validator, importance, text, UpdateMode.PER_BROKER)


TLS_SETTINGS: Final = (
    _setting(
        "security.inter.broker.protocol",
        _STRING,
        None,
        OneOf(tuple(SecurityProtocol)),
        _MEDIUM,
        "The listener that brokers use among themselves, by the name of a security protocol. Give this or "
        "inter.broker.listener.name.",
    ),
    _tls(
        "ssl.keystore.type",
        _STRING,
        "JKS",
        OneOf(STORE_TYPES),
        _MEDIUM,
        "The format of the key store: PEM or PKCS12. With JKS, Kafka's default, the file says which it is; a "
        "file that is really JKS is refused with the command that converts it.",
    ),
    _tls(
        "ssl.keystore.location",
        _STRING,
        None,
        NotEmpty(),
        Importance.HIGH,
        "The file with the private key and the certificate chain of this broker. A change of the file is noticed.",
    ),
    _tls("ssl.keystore.password", _PASSWORD, None, None, Importance.HIGH, "The password of a PKCS12 key store."),
    _tls(
        "ssl.key.password",
        _PASSWORD,
        None,
        None,
        Importance.HIGH,
        "The password of an encrypted private key in PEM.",
    ),
    _tls(
        "ssl.keystore.key",
        _PASSWORD,
        None,
        NotEmpty(),
        Importance.HIGH,
        "The private key in PEM, in place of ssl.keystore.location, with ssl.keystore.type=PEM.",
    ),
    _tls(
        "ssl.keystore.certificate.chain",
        _PASSWORD,
        None,
        NotEmpty(),
        Importance.HIGH,
        "The certificate of this broker in PEM, and those between it and its authority, for ssl.keystore.key.",
    ),
    _tls(
        "ssl.truststore.type",
        _STRING,
        "JKS",
        OneOf(STORE_TYPES),
        _MEDIUM,
        "The format of the trust store, as for ssl.keystore.type.",
    ),
    _tls(
        "ssl.truststore.location",
        _STRING,
        None,
        NotEmpty(),
        Importance.HIGH,
        "The file with the certificates of the authorities that clients and other brokers are trusted by. Default: "
        "those of the operating system.",
    ),
    _tls("ssl.truststore.password", _PASSWORD, None, None, Importance.HIGH, "The password of a PKCS12 trust store."),
    _tls(
        "ssl.truststore.certificates",
        _PASSWORD,
        None,
        NotEmpty(),
        Importance.HIGH,
        "The certificates of the trusted authorities in PEM, in place of ssl.truststore.location, with "
        "ssl.truststore.type=PEM.",
    ),
    _tls(
        "ssl.client.auth",
        _STRING,
        "none",
        OneOf(("required", "requested", "none")),
        _MEDIUM,
        "Whether clients show a certificate: required, requested (they may have none), or none. A certificate that is "
        "shown must be trusted.",
    ),
    _tls(
        "ssl.enabled.protocols",
        _LIST,
        "TLSv1.2,TLSv1.3",
        OneOf(TLS_VERSIONS),
        _MEDIUM,
        "The versions of TLS that are spoken.",
    ),
    _tls(
        "ssl.protocol",
        _STRING,
        "TLSv1.3",
        OneOf((*TLS_VERSIONS, "TLS")),
        _MEDIUM,
        "The highest version of TLS that is spoken.",
    ),
    _tls(
        "ssl.cipher.suites",
        _LIST,
        "",
        None,
        _LOW,
        "The cipher suites that are allowed, by their IANA names. Default: those of OpenSSL. The suites of TLS 1.3 "
        "are allowed all together or not at all.",
    ),
    _tls(
        "ssl.endpoint.identification.algorithm",
        _STRING,
        "https",
        OneOf(("https", "")),
        _LOW,
        "Whether the certificate of another broker must name the host it is reached at: https, or empty for no.",
    ),
    _tls(
        "ssl.allow.dn.changes",
        _BOOLEAN,
        "false",
        None,
        _LOW,
        "Whether a key store that is exchanged while the broker runs may have another subject (distinguished name).",
    ),
    _tls(
        "ssl.allow.san.changes",
        _BOOLEAN,
        "false",
        None,
        _LOW,
        "Whether a key store that is exchanged while the broker runs may name fewer hosts (subject alternative names).",
    ),
    _setting(
        "ssl.principal.mapping.rules",
        _STRING,
        "DEFAULT",
        NotEmpty(),
        _LOW,
        "How the name of a client comes of the subject of its certificate: a list of RULE:pattern/replacement/, with L "
        "or U behind it for lower or upper case, the first that matches; DEFAULT is the whole subject.",
    ),
)
