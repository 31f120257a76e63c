"""The `ssl.` options of a JAAS line: how who asks for tokens, or for the keys that sign them, speaks TLS (KIP-768).

... OAuthBearerLoginModule required ssl.truststore.location="/etc/kafka/provider.pem" ssl.truststore.type=PEM;
"""

from collections.abc import Mapping
from typing import Final

from ottla.security.tls_config import TlsConfig
from ottla.settings.value import SettingValue, parse_list

_PREFIX: Final = "ssl."
_LISTS: Final = frozenset({"ssl.enabled.protocols", "ssl.cipher.suites"})
_HOST_NAME: Final = "ssl.endpoint.identification.algorithm"


def jaas_tls(options: Mapping[str, str]) -> TlsConfig | None:
    """None where no option says anything.

    >>> jaas_tls({"ssl.truststore.location": "ca.pem"}).trust_store.location
    'ca.pem'
    """
    if not any(name.startswith(_PREFIX) for name in options):
        return None

    def value_of(name: str) -> SettingValue:
        text = options.get(name, "https" if name == _HOST_NAME else "")
        return parse_list(text) if name in _LISTS else text.upper() if name.endswith("store.type") else text

    return TlsConfig.from_settings(value_of)
