"""Cipher suites by their IANA names, as Kafka's settings have them, in the names of OpenSSL.

TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384   ECDHE-RSA-AES256-GCM-SHA384
TLS_RSA_WITH_AES_128_CBC_SHA            AES128-SHA
"""

import re
from collections.abc import Sequence
from typing import Final

OF_TLS_1_3: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""The suites of TLS 1.3 that OpenSSL uses unless it is told otherwise, which Python can do from 3.15 on."""

_WITH_KEY_EXCHANGE: Final = re.compile(r"TLS_([A-Z0-9_]+)_WITH_([A-Z0-9_]+)", re.ASCII)


def openssl_name(suite: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2; None for what cannot be one.

    >>> openssl_name("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256")
    'ECDHE-ECDSA-CHACHA20-POLY1305'
    """
    match = _WITH_KEY_EXCHANGE.fullmatch(suite)
    if match is None:
        return None
    exchange, cipher = match.groups()
    cipher = re.sub(r"(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher).replace("_CBC", "")
    if cipher.startswith("CHACHA20"):
        cipher = cipher.removesuffix("_SHA256")
    name = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return name.replace("_", "-")


def split_suites(suites: Sequence[str]) -> tuple[list[str], bool]:
    """The suites of TLS 1.2 in OpenSSL's names, and whether TLS 1.3 may be spoken.

    Raises ValueError for a name that is none, and where only some suites of TLS 1.3 are to be used.
    """
    of_1_3 = OF_TLS_1_3.intersection(suites)
    if of_1_3 and of_1_3 != OF_TLS_1_3:
        missing = ", ".join(sorted(OF_TLS_1_3 - of_1_3))
        raise ValueError(
            f"the suites of TLS 1.3 can only be used all together: add {missing}, or leave out those of TLS 1.3"
        )
    names = []
    for suite in suites:
        if suite in OF_TLS_1_3:
            continue
        name = openssl_name(suite)
        if name is None:
            raise ValueError(f"{suite[:100]!r} is not the IANA name of a cipher suite")
        names.append(name)
    return names, bool(of_1_3)
