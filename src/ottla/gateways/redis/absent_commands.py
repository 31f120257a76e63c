"""Commands about what there is none of here: functions, scripts, a slow log, latency events, modules, Redis Cluster.

FUNCTION LIST  --> nothing        what is asked for is not there: Redis' answer for none
FUNCTION LOAD  --> an error       what would make something is refused
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.numbers import find_integer
from ottla.gateways.redis.reply import OK, Reply

if TYPE_CHECKING:
    from ottla.gateways.redis.session import Session

FUNCTION_ARITIES: Final = {
    b"FLUSH": -2,
    b"LIST": -2,
    b"STATS": 2,
    b"DELETE": 3,
    b"KILL": 2,
    b"DUMP": 2,
    b"LOAD": -3,
    b"RESTORE": -3,
    b"HELP": 2,
}
SCRIPT_ARITIES: Final = {b"FLUSH": -2, b"EXISTS": -3, b"KILL": 2, b"LOAD": 3, b"DEBUG": 3, b"HELP": 2}
SLOWLOG_ARITIES: Final = {b"GET": -2, b"LEN": 2, b"RESET": 2, b"HELP": 2}
LATENCY_ARITIES: Final = {
    b"RESET": -2,
    b"LATEST": 2,
    b"HISTORY": 3,
    b"HISTOGRAM": -2,
    b"DOCTOR": 2,
    b"GRAPH": 3,
    b"HELP": 2,
}
MODULE_ARITIES: Final = {b"LIST": 2, b"LOAD": -3, b"LOADEX": -3, b"UNLOAD": 3, b"HELP": 2}
_CLUSTER_SUBCOMMANDS: Final = """
addslots addslotsrange bumpepoch count-failure-reports countkeysinslot delslots delslotsrange failover flushslots
forget getkeysinslot help info keyslot links meet migration myid myshardid nodes replicas replicate reset saveconfig
set-config-epoch setslot shards slaves slot-stats slots
"""
CLUSTER_ARITIES: Final = {name.upper().encode(): -2 for name in _CLUSTER_SUBCOMMANDS.split()}

_NOT_BUSY: Final = "NOTBUSY No scripts in execution right now."
_NO_CLUSTER: Final = "ERR This instance has cluster support disabled"


def function(session: Session, arguments: list[bytes]) -> Reply:
    """FUNCTION."""
    match arguments[1].upper():
        case b"FLUSH":
            _require_way(arguments, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
            return OK
        case b"LIST":
            _check_list(arguments)
            return []
        case b"STATS":
            return {b"running_script": None, b"engines": {}}
        case b"DELETE":
            raise RedisError("ERR Library not found")
        case b"KILL":
            raise RedisError(_NOT_BUSY)
    raise _not_served(arguments, "there are no functions")


def _check_list(arguments: list[bytes]) -> None:
    at = 2
    while at < len(arguments):
        option = arguments[at].upper()
        if option == b"LIBRARYNAME":
            if at + 1 == len(arguments):
                raise RedisError("ERR library name argument was not given")
            at += 1
        elif option != b"WITHCODE":
            raise RedisError(b"ERR Unknown argument %s" % arguments[at])
        at += 1


def script(session: Session, arguments: list[bytes]) -> Reply:
    """SCRIPT."""
    match arguments[1].upper():
        case b"FLUSH":
            _require_way(arguments, "ERR SCRIPT FLUSH only support SYNC|ASYNC option")
            return OK
        case b"EXISTS":
            return [0] * (len(arguments) - 2)
        case b"KILL":
            raise RedisError(_NOT_BUSY)
    raise _not_served(arguments, "there are no scripts")


def _require_way(arguments: list[bytes], error: str) -> None:
    if len(arguments) > 3 or (len(arguments) == 3 and arguments[2].upper() not in (b"SYNC", b"ASYNC")):
        raise RedisError(error)


def slow_log(session: Session, arguments: list[bytes]) -> Reply:
    """SLOWLOG, as with `slowlog-log-slower-than` -1: nothing is logged."""
    match arguments[1].upper():
        case b"LEN":
            return 0
        case b"RESET":
            return OK
    if len(arguments) > 3:
        raise RedisError("ERR wrong number of arguments for 'slowlog|get' command")
    count = find_integer(arguments[2]) if len(arguments) == 3 else 0
    if count is None or count < -1:
        raise RedisError("ERR count should be greater than or equal to -1")
    return []


def latency(session: Session, arguments: list[bytes]) -> Reply:
    """LATENCY, as with `latency-monitor-threshold` 0 and `latency-tracking` no: nothing is monitored."""
    match arguments[1].upper():
        case b"RESET":
            return 0
        case b"LATEST" | b"HISTORY":
            return []
        case b"HISTOGRAM":
            return {}
    raise _not_served(arguments, "the broker's metrics tell how long requests take")


def module(session: Session, arguments: list[bytes]) -> Reply:
    """MODULE."""
    if arguments[1].upper() == b"LIST":
        return []
    raise _not_served(arguments, "there are no modules")


def cluster(session: Session, arguments: list[bytes]) -> Reply:
    """CLUSTER, READONLY, READWRITE, ASKING: any broker takes any key, so clients need no map of slots."""
    raise RedisError(_NO_CLUSTER)


def debug(session: Session, arguments: list[bytes]) -> Reply:
    """DEBUG."""
    raise RedisError("ERR DEBUG command not allowed")


def last_save(session: Session, arguments: list[bytes]) -> Reply:
    """LASTSAVE: all that was answered is on disk now."""
    return session.now_ms // 1_000


def role(session: Session, arguments: list[bytes]) -> Reply:
    """ROLE: no server replicates by Redis' protocol."""
    return [b"master", 0, []]


def _not_served(arguments: list[bytes], reason: str) -> RedisError:
    name = b" ".join(arguments[:2]).upper()
    return RedisError(b"ERR %b is not served: %b" % (name, reason.encode()))
