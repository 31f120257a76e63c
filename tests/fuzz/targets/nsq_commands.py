"""Bytes of an NSQ client in pieces of any size, plain or compressed: the commands are those of the whole, and nothing
else is raised.

0 as it is, 1 snappy, 2 deflate | how many pieces, 1 byte | size of each piece, 1 byte, times itself | the bytes
"""

import contextlib
from collections.abc import Iterable

from ottla.gateways.nsq.command import Command, Finish, FinishMany, Publish
from ottla.gateways.nsq.command_reader import CommandReader, LineTooLongError
from ottla.gateways.nsq.error import NsqError
from ottla.gateways.nsq.identify import options_before_identify, options_of
from ottla.gateways.nsq.layers import PIECE_BYTES, DeflateLayer, Layer, LayerError, SnappyLayer
from ottla.gateways.nsq.limits import NsqLimits
from tests.fuzz.targets.frames import pieces

LIMITS = NsqLimits(message_bytes_max=1_000, body_bytes_max=3_000)
ALL = 1 << 20
DAMAGED = "damaged"


def one_by_one(command: Command) -> list[Command]:
    """A command as the client sent it: what arrives together may be one."""
    if isinstance(command, FinishMany):
        return [Finish(b"%016x" % number) for number in command.numbers]
    if isinstance(command, Publish) and command.command == "PUB":
        return [Publish("PUB", command.topic, [body]) for body in command.bodies]
    return [command]


def commands_of(arriving: Iterable[bytes]) -> tuple[list[Command], str | None]:
    """The commands, and why they end before the end."""
    reader = CommandReader(LIMITS)
    found: list[Command] = []
    try:
        for piece in arriving:
            reader.feed(piece)
            while (command := reader.next()) is not None:
                found += one_by_one(command)
    except NsqError as error:
        return found, error.line.decode("latin-1")
    except LineTooLongError:
        return found, "too long"
    except LayerError:
        return found, DAMAGED
    return found, None


def through(layer: Layer | None, arriving: Iterable[bytes]) -> Iterable[bytes]:
    """What is meant by what arrives."""
    for piece in arriving:
        if layer is None:
            yield piece
            continue
        for meant in layer.received(piece):
            assert len(meant) <= PIECE_BYTES
            yield meant


def layer_of(kind: int) -> Layer | None:
    return (None, SnappyLayer(), DeflateLayer(6))[kind % 3]


def check(data: bytes) -> None:
    """See the top of the file."""
    if len(data) < 2:
        return
    kind, count = data[0], data[1]
    sizes = [size * size for size in data[2 : 2 + count]] or [ALL]
    stream = data[2 + count :]
    whole = commands_of(through(layer_of(kind), [stream]))
    found = commands_of(through(layer_of(kind), map(bytes, pieces(stream, sizes))))
    if whole[1] != DAMAGED:
        assert found == whole
    else:  # how much is read before the damage is seen depends on the pieces
        assert found[0][: len(whole[0])] == whole[0]
    with contextlib.suppress(NsqError):
        options_of(stream, LIMITS, options_before_identify(LIMITS), has_tls=True)
