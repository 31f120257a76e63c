"""Listening sockets, and errors that say which address and what to do.

An address is taken before the broker reads its logs and hears of its cluster, so that one that cannot be had is said at
once, and nobody is let in before it can answer: until then whoever connects is refused, and goes to another broker.
"""

import asyncio
import errno
import os
import socket

from ottla.network.address import Address
from ottla.network.config import NetworkConfig


class ListenError(OSError):
    """An address that cannot be listened at. The message is one line for the person who gave it."""

    def __init__(self, number: int, host: str, port: int, reason: str) -> None:
        super().__init__(number, f"cannot listen at {Address(host, port)}: {reason}")

    def __str__(self) -> str:
        return str(self.strerror)


async def bound_sockets(host: str, port: int, config: NetworkConfig) -> list[socket.socket]:
    """Non-blocking sockets that have each address of `host`, all at one port, until `listen`. Raises ListenError.

    An empty host or `*` is every interface, IPv4 and IPv6.
    """
    if host in ("", "*"):
        return [_open_everywhere(port, config)]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ListenError(
            error.errno or errno.EADDRNOTAVAIL,
            host,
            port,
            f"{host!r} is not the name of an address; check its spelling",
        ) from error
    sockets: list[socket.socket] = []
    for family, _, _, _, address in dict.fromkeys(found):
        chosen_port = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(_open(family, (str(address[0]), chosen_port), config))
        except OSError as error:
            if sockets:  # a name such as localhost whose IPv6 address this machine may lack
                continue
            raise _explained(error, host, port) from error
    return sockets


def listen(sockets: list[socket.socket], config: NetworkConfig) -> None:
    """Have clients connect. Raises ListenError: another program that has one of the addresses too was faster."""
    for sock in sockets:
        try:
            sock.listen(config.socket_listen_backlog_size)
        except OSError as error:
            host, port = sock.getsockname()[:2]
            raise _explained(error, host, port) from error


def _open_everywhere(port: int, config: NetworkConfig) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return _open(socket.AF_INET6, ("::", port), config)
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # which say that IPv6 is switched off
                raise _explained(error, "::", port) from error
    try:
        return _open(socket.AF_INET, ("0.0.0.0", port), config)  # noqa: S104 (asked for by name)
    except OSError as error:
        raise _explained(error, "0.0.0.0", port) from error  # noqa: S104


def _open(family: int, address: tuple[str, int], config: NetworkConfig) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        if config.socket_receive_buffer_bytes > 0:  # before listen: the window scale is agreed on at the handshake
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
        sock.setblocking(False)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _explained(error: OSError, host: str, port: int) -> ListenError:
    reasons = {
        errno.EADDRINUSE: "another program listens there; stop it or choose another port",
        errno.EACCES: "ports below 1024 need privileges; choose a higher one",
        errno.EADDRNOTAVAIL: "this machine does not have that address; choose one of its own, or 0.0.0.0 for all",
    }
    number = error.errno or 0
    return ListenError(number, host, port, reasons.get(number, os.strerror(number)))
