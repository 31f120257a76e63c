"""What INFO, CONFIG and CLIENT LIST say."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.acl_commands import DEFAULT_USER
from ottla.gateways.redis.config import VERSION
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.numbers import find_integer

if TYPE_CHECKING:
    from ottla.gateways.redis.session import Session

_EVERYTHING: Final = frozenset({"all", "everything"})
_NOT_BY_DEFAULT: Final = frozenset({"commandstats"})


def info(session: Session, wanted: list[str]) -> bytes:
    """The sections of INFO that are wanted, the usual ones for none."""
    sections, chosen = _sections(session), set(wanted)
    if not chosen or "default" in chosen:
        chosen |= sections.keys() - _NOT_BY_DEFAULT
    names = [name for name in sections if name in chosen or chosen & _EVERYTHING]
    texts = []
    for name in names:
        lines = "".join(f"{key}:{value}\r\n" for key, value in sections[name].items())
        texts.append(f"# {'CPU' if name == 'cpu' else name.capitalize()}\r\n{lines}")
    return "\r\n".join(texts).encode()


def _sections(session: Session) -> dict[str, dict[str, object]]:
    gateway = session.gateway
    uptime_s = (session.now_ms - gateway.started_ms) // 1000
    times, memory_bytes = os.times(), _memory_bytes()
    keyspace: dict[str, object] = {}
    for number in range(len(session.keyspace.databases)):
        streams = list(session.live(number))
        if streams:
            expiring = sum(stream.expires_ms is not None for _, stream in streams)
            keyspace[f"db{number}"] = f"keys={len(streams)},expires={expiring},avg_ttl=0"
    return {
        "server": {
            "redis_version": VERSION,
            "redis_mode": "standalone",
            "server_name": "ottla",
            "os": f"{platform.system()} {platform.release()} {platform.machine()}",
            "arch_bits": 64,
            "process_id": os.getpid(),
            "run_id": f"{os.getpid():040x}",
            "tcp_port": session.local_address.rpartition(":")[2],
            "uptime_in_seconds": uptime_s,
            "uptime_in_days": uptime_s // 86_400,
        },
        "clients": {
            "connected_clients": len(gateway.sessions),
            "blocked_clients": gateway.blocked_count,
            "total_blocking_keys": gateway.blocking_keys,
            "total_blocking_keys_on_nokey": 0,
        },
        "memory": {
            "used_memory": memory_bytes,
            "used_memory_rss": memory_bytes,
            "maxmemory": 0,
            "maxmemory_policy": "noeviction",
        },
        "persistence": {
            "loading": 0,
            "async_loading": 0,
            "rdb_changes_since_last_save": session.keyspace.changes,
            "aof_enabled": 1,
        },
        "stats": {
            "total_connections_received": gateway.connections_total,
            "total_commands_processed": gateway.commands_total,
            "total_error_replies": gateway.statistics.errors_total,
        },
        "commandstats": gateway.statistics.of_commands(),
        "errorstats": gateway.statistics.of_errors(),
        "replication": {"role": "master", "connected_slaves": 0, "master_repl_offset": 0},
        "cpu": {"used_cpu_sys": f"{times.system:.6f}", "used_cpu_user": f"{times.user:.6f}"},
        "cluster": {"cluster_enabled": 0},
        "keyspace": keyspace,
    }


def _memory_bytes() -> int:
    """What the process has in memory; 0 where the system does not tell."""
    try:
        with Path("/proc/self/statm").open("rb") as pages:
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def client_line(session: Session) -> bytes:
    """A client, in the words of CLIENT LIST."""
    now_ms = session.gateway.broker.clock.now_ms()
    queued = -1 if session.queued is None else len(session.queued)
    pairs = {
        "id": session.identity,
        "addr": session.address,
        "laddr": session.local_address,
        "name": session.name.decode(errors="replace"),
        "age": max(0, now_ms - session.connected_ms) // 1_000,
        "idle": max(0, now_ms - session.now_ms) // 1_000,
        "flags": "x" if session.queued is not None else "N",
        "db": session.database,
        "sub": 0,
        "psub": 0,
        "ssub": 0,
        "multi": queued,
        "watch": len(session.watched),
        "tot-cmds": session.commands,
        "cmd": session.last_command,
        "user": (session.user or DEFAULT_USER).decode(),
        "resp": session.protocol,
        "lib-name": session.library.decode(errors="replace"),
        "lib-ver": session.library_version.decode(errors="replace"),
    }
    return " ".join(f"{key}={value}" for key, value in pairs.items()).encode()


# --- CONFIG ---------------------------------------------------------------------------------------------------------

BYTES: Final = b"stream-node-max-bytes"
ENTRIES: Final = b"stream-node-max-entries"


def config_values(session: Session) -> dict[bytes, bytes]:
    """What CONFIG GET knows: what clients and test suites ask for."""
    limits = session.keyspace.limits
    return {
        BYTES: b"%d" % limits.bytes_max,
        ENTRIES: b"%d" % limits.entries_max,
        b"stream-idmp-duration": b"100",
        b"stream-idmp-maxsize": b"100",
        b"databases": b"%d" % len(session.keyspace.databases),
        b"proto-max-bulk-len": b"%d" % session.gateway.config.bulk_bytes_max,
        b"maxmemory": b"0",
        b"maxmemory-policy": b"noeviction",
        b"appendonly": b"yes",
        b"appendfsync": b"always",
        b"save": b"",
        b"timeout": b"0",
        b"cluster-enabled": b"no",
        b"slowlog-log-slower-than": b"-1",
        b"latency-monitor-threshold": b"0",
        b"latency-tracking": b"no",
    }


def check_config(session: Session, name: bytes, value: bytes) -> None:
    """Raises RedisError for what CONFIG SET does not take."""
    known = config_values(session).get(name)
    if known is None:
        raise RedisError(b"ERR Unknown option or number of arguments for CONFIG SET - '%s'" % name)
    number = find_integer(value)
    if name in (BYTES, ENTRIES):
        if number is None or number < 0:
            raise RedisError(
                b"ERR CONFIG SET failed (possibly related to argument '%s') - argument couldn't be parsed into an "
                b"integer" % name
            )
    elif value != known:
        raise RedisError(
            b"ERR CONFIG SET failed (possibly related to argument '%s') - can't set immutable config" % name
        )


def set_config(session: Session, name: bytes, value: bytes) -> None:
    """Set what may be set, until the broker stops."""
    if name == BYTES:
        session.keyspace.limits.bytes_max = int(value)
    elif name == ENTRIES:
        session.keyspace.limits.entries_max = int(value)
