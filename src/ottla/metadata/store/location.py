"""Where the metadata of a cluster is kept, as one line of text.

embedded                                 in the data directory, for one broker
embedded:PATH                            in a directory that the broker processes of one host share
zookeeper://a:2181,b:2181,c:2181/ottla   in a ZooKeeper ensemble, below a node of its own, for many hosts
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.metadata.store.interface import SESSION_TIMEOUT_MS, MetadataStore
from ottla.settings.definition import InvalidSettingError

if TYPE_CHECKING:
    from ottla.metadata.store.zookeeper_security import ZooKeeperSecurity

EMBEDDED: Final = "embedded"
ZOOKEEPER: Final = "zookeeper://"
_HOST: Final = re.compile(r"([^\s:/,]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?")
_CHROOT: Final = re.compile(r"(/[^\s/]+)*/?")


def is_shared(location: str) -> bool:
    """Whether other brokers may use the store as well. Raises InvalidSettingError for what is no location."""
    _require_location(location)
    return location != EMBEDDED


def open_store(
    location: str,
    data_dir: Path,
    *,
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    zookeeper: "ZooKeeperSecurity | None" = None,
) -> MetadataStore:
    """The store at a location, not connected yet: `MetadataStore.open` does that.

    `data_dir` is where `embedded` alone lies. Raises InvalidSettingError with one line that says what to write.
    """
    _require_location(location)
    if location.startswith(ZOOKEEPER):
        try:
            from ottla.metadata.store.zookeeper import ZooKeeperStore
            from ottla.metadata.store.zookeeper_security import NO_SECURITY
        except ImportError as error:
            raise InvalidSettingError(f"metadata={location} needs kazoo: pip install 'ottla[zookeeper]'") from error
        return ZooKeeperStore(
            *parse_zookeeper(location), session_timeout_ms=session_timeout_ms, security=zookeeper or NO_SECURITY
        )
    from ottla.metadata.store.embedded import EmbeddedStore

    return EmbeddedStore(embedded_directory(location, data_dir), session_timeout_ms=session_timeout_ms)


def parse_zookeeper(location: str) -> tuple[str, str]:
    """The servers, and the node below which everything is, "" for the root."""
    hosts, slash, node = location.removeprefix(ZOOKEEPER).partition("/")
    return hosts, (slash + node).rstrip("/")


def embedded_directory(location: str, data_dir: Path) -> Path:
    """The directory of an embedded store."""
    _, _, path = location.partition(":")
    return Path(path.removesuffix("/metadata.db")).absolute() if path else data_dir


def _require_location(location: str) -> None:
    if location == EMBEDDED or (location.startswith(f"{EMBEDDED}:") and location != f"{EMBEDDED}:"):
        return
    if location.startswith(ZOOKEEPER):
        hosts, slash, chroot = location.removeprefix(ZOOKEEPER).partition("/")
        if all(map(_HOST.fullmatch, hosts.split(","))) and _CHROOT.fullmatch(slash + chroot):
            return
        raise InvalidSettingError(f"metadata={location} is not an address: write {ZOOKEEPER}HOST:PORT,HOST:PORT/NODE")
    raise InvalidSettingError(
        f"metadata={location} is not a store: write {EMBEDDED}, {EMBEDDED}:PATH or {ZOOKEEPER}HOST:PORT,HOST:PORT/NODE"
    )
