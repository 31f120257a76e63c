"""Where tasks run, according to the URL of Spark's master."""

import ipaddress
import re
from urllib.parse import urlsplit


def is_local(master: str) -> bool:
    """Whether driver and workers are one process of this machine."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def is_this_machine(master: str) -> bool:
    """Whether all workers are on the driver's machine: with a local master, and one that has a loopback address.

    >>> [is_this_machine(master) for master in ("local[2]", "spark://127.0.0.1:7077", "spark://a:7077", "yarn")]
    [True, True, False, False]
    """
    if is_local(master) or master.startswith("local-cluster["):
        return True
    hosts = [urlsplit(f"//{each}").hostname or "" for each in master.partition("://")[2].split(",")]
    return master.startswith("spark://") and all(map(is_loopback, hosts))


def is_loopback(host: str) -> bool:
    """Whether this name or address is a loopback address.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "10.0.0.1", "broker1")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
