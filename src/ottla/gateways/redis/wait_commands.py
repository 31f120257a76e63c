"""WAIT and WAITAOF: how many replicas have what a client has written.

    XADD s ...  --> answered once it is on disk, on all in-sync replicas of the topic of `s`
    WAIT 2 100  --> how many these are beside the leader, now

A replica that is not in sync is not counted: nobody may rely on it. The reply does not wait until there are more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.keyspace import UnwrittenError
from ottla.gateways.redis.numbers import integer, timeout_ms
from ottla.gateways.redis.reply import Reply

if TYPE_CHECKING:
    from ottla.gateways.redis.session import Session


def wait(session: Session, arguments: list[bytes]) -> Reply:
    """WAIT numreplicas timeout."""
    integer(arguments[1])
    timeout_ms(arguments[2])
    return _replicas(session)


def wait_on_disk(session: Session, arguments: list[bytes]) -> Reply:
    """WAITAOF numlocal numreplicas timeout: the leader has it on disk, and so have they."""
    if not 0 <= integer(arguments[1]) <= 1:
        raise RedisError("ERR value is out of range, must be between 0 and 1")
    integer(arguments[2])
    timeout_ms(arguments[3])
    return [1, _replicas(session)]


def _replicas(session: Session) -> int:
    """Of the keys that the client has written, the fewest in-sync replicas beside the leader; where it has written
    none, those that a new key gets.
    """
    keyspace = session.keyspace
    placement = keyspace.placement
    if not placement.has_peers:
        return 0
    if not session.in_transaction:
        _require_written(session)
    counts = [placement.in_sync_of(topic) for place in session.written if (topic := placement.topic_of(place))]
    if not counts:
        counts = [min(session.gateway.config.replication_factor, 1 + len(placement.others))]
    return max(0, min(counts) - 1)


def _require_written(session: Session) -> None:
    """Wait for what is on its way to the disk: until it is there a replica may be found not to have it."""
    flushes = session.unwritten
    if flushes is None:
        streams = [session.keyspace.databases[database].get(key) for database, key in session.written]
        flushes = {stream.log.latest for stream in streams if stream is not None and stream.log.latest is not None}
    if not all(flush.is_done for flush in flushes):
        session.unwritten = flushes
        raise UnwrittenError(flushes)
    session.unwritten = None
