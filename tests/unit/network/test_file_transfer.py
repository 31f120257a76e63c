"""From a file to a socket."""

import os
import socket
from pathlib import Path

import pytest

from ottla.network.file_transfer import send_file


@pytest.fixture
def content() -> bytes:
    return os.urandom(1024 * 1024)


@pytest.fixture
def fd(tmp_path: Path, content: bytes):
    path = tmp_path / "log"
    path.write_bytes(content)
    number = os.open(path, os.O_RDWR)
    os.fsync(number)
    yield number
    os.close(number)


def test_a_file_that_ends_too_early_is_an_error(fd: int, content: bytes):
    left, right = socket.socketpair()
    with left, right, pytest.raises(OSError, match="ends before"):
        send_file(left.fileno(), fd, len(content), 10)


def test_a_file_goes_to_a_socket_from_the_given_position(fd: int, content: bytes):
    left, right = socket.socketpair()
    with left, right:
        assert send_file(left.fileno(), fd, 1_000, 500) == 500
        assert right.recv(1_000) == content[1_000:1_500]


def test_a_full_socket_is_no_error_of_the_file(fd: int):
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(False)
        left.send(bytes(64 * 1024 * 1024))
        with pytest.raises(BlockingIOError):
            send_file(left.fileno(), fd, 0, 1024 * 1024)
