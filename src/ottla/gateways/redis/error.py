"""What a Redis client is told when a command fails: one line, of which the first word is a code."""

from typing import Final

from ottla.broker.access import is_refusal
from ottla.model.errors import ApiError


class RedisError(Exception):
    """A command that failed; `line` is what follows the `-` of the reply, without the end of the line."""

    def __init__(self, line: bytes | str) -> None:
        data = line.encode() if isinstance(line, str) else line
        self.line = data.replace(b"\r", b" ").replace(b"\n", b" ")
        super().__init__(self.line.decode(errors="replace"))


class ProtocolError(RedisError):
    """Bytes that are no command: the client is told so, and the connection closed."""


SYNTAX: Final = "ERR syntax error"
NOT_AN_INTEGER: Final = "ERR value is not an integer or out of range"
INVALID_ID: Final = "ERR Invalid stream ID specified as stream command argument"
NO_SUCH_KEY: Final = "ERR no such key"


def failed(error: ApiError) -> RedisError:
    """What the client is told of a call of the broker that failed."""
    return RedisError(f"{'NOPERM' if is_refusal(error) else 'ERR'} {error.message}")


def arity(name: str) -> RedisError:
    """A command with too few arguments, or too many."""
    return RedisError(f"ERR wrong number of arguments for '{name}' command")


def no_group(key: bytes, group: bytes) -> RedisError:
    """The error of XPENDING, XCLAIM and XAUTOCLAIM."""
    return RedisError(b"NOGROUP No such key '%s' or consumer group '%s'" % (key, group))


def unknown_or_wrong(subcommand: bytes, command: str) -> RedisError:
    """A subcommand with arguments that it does not take."""
    return RedisError(
        b"ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP."
        % (subcommand[:128], command.upper().encode())
    )
