"""What nsqd's statistics call the version and the cipher suite of TLS, where OpenSSL has other names."""


def version_name(name: str) -> str:
    """The name of a version.

    >>> version_name("TLSv1.3")
    'TLS1.3'
    """
    return name.replace("TLSv", "TLS")


def cipher_suite_name(name: str) -> str:
    """The name of a cipher suite in IANA's registry of them, which OpenSSL has for those of TLS 1.3 alone.

    >>> cipher_suite_name("ECDHE-ECDSA-AES128-GCM-SHA256")
    'TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256'
    >>> cipher_suite_name("DHE-RSA-AES256-SHA256")
    'TLS_DHE_RSA_WITH_AES_256_CBC_SHA256'
    >>> cipher_suite_name("ECDHE-RSA-CHACHA20-POLY1305")
    'TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256'
    >>> cipher_suite_name("TLS_AES_256_GCM_SHA384")
    'TLS_AES_256_GCM_SHA384'
    """
    match name.split("-"):
        case [exchange, signature, ("AES128" | "AES256") as aes, "GCM", hashed]:
            cipher = f"{aes[:3]}_{aes[3:]}_GCM_{hashed}"
        case [exchange, signature, ("AES128" | "AES256") as aes, hashed]:
            cipher = f"{aes[:3]}_{aes[3:]}_CBC_{hashed}"
        case [exchange, signature, "CHACHA20", "POLY1305"]:
            cipher = "CHACHA20_POLY1305_SHA256"
        case _:
            return name
    return f"TLS_{exchange}_{signature}_WITH_{cipher}"
