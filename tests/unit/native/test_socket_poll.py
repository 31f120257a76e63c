"""Many sockets with one call: what arrives under whose name, and what becomes of what is sent."""

import errno
import gc
import select
import socket
import struct
import weakref
from collections.abc import Iterator

import pytest

from ottla.native import SocketPoll

READABLE, WRITABLE, RECEIVE = SocketPoll.READABLE, SocketPoll.WRITABLE, SocketPoll.RECEIVE


@pytest.fixture
def poll() -> Iterator[SocketPoll]:
    poll = SocketPoll()
    yield poll
    poll.close()


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    pairs = [socket.socketpair() for _ in range(3)]
    for ours, theirs in pairs:
        ours.setblocking(False)
        theirs.settimeout(60)
    yield pairs
    for pair in pairs:
        for each in pair:
            each.close()


Pairs = list[tuple[socket.socket, socket.socket]]


def has_news(poll: SocketPoll, timeout_s: float = 0) -> bool:
    """Whether one of its sockets is ready, within this time."""
    waiting = select.poll()
    waiting.register(poll, select.POLLIN)
    return bool(waiting.poll(timeout_s * 1000))


def test_bytes_come_under_the_name_of_their_owner(poll: SocketPoll, pairs: Pairs):
    owners = ["a", "b", "c"]
    for owner, (ours, theirs) in zip(owners, pairs, strict=True):
        poll.watch(ours.fileno(), owner, READABLE | RECEIVE)
        theirs.sendall(owner.encode() * 5)
    assert has_news(poll, 60)
    buffer = bytearray(100)
    received, ready, lost = poll.receive(buffer, 10, 20)
    assert (ready, lost) == ([], [])
    assert {owner: bytes(buffer[begin:end]) for owner, begin, end in received} == {
        owner: owner.encode() * 5 for owner in owners
    }
    assert [received[0][1], received[-1][2]] == [10, 25]
    assert poll.receive(buffer, 0, 20) == ([], [], [])
    assert not has_news(poll)


def test_who_is_not_received_from_is_said_to_be_ready(poll: SocketPoll, pairs: Pairs):
    (receives, _), (looks, _), (writes, _) = pairs
    poll.watch(receives.fileno(), "receives", READABLE | RECEIVE)
    poll.watch(looks.fileno(), "looks", READABLE)
    poll.watch(writes.fileno(), "writes", WRITABLE)
    for _, theirs in pairs:
        theirs.sendall(b"x")
    expected = [("looks", READABLE), ("receives", READABLE), ("writes", WRITABLE)]
    for buffer, position in ((None, 0), (bytearray(9), 0), (bytearray(20), 11), (bytearray(20), 21)):
        received, ready, lost = poll.receive(buffer, position, 10)
        assert (received, sorted(ready), lost) == ([], expected, [])
    received, ready, _ = poll.receive(bytearray(10), 0, 10)
    assert (received, sorted(ready)) == ([("receives", 0, 1)], [expected[0], expected[2]])


def test_to_be_received_from_can_be_changed_without_forgetting_what_there_is(poll: SocketPoll, pairs: Pairs):
    ours, theirs = pairs[0]
    poll.watch(ours.fileno(), "a", READABLE)
    theirs.sendall(b"xyz")
    poll.watch(ours.fileno(), "b", READABLE | RECEIVE)
    assert poll.receive(bytearray(10), 0, 2) == ([("b", 0, 2)], [], [])
    poll.watch(ours.fileno(), "c", READABLE)
    assert poll.receive(bytearray(10), 0, 2) == ([], [("c", READABLE)], [])
    poll.watch(ours.fileno(), "d", 0)
    assert poll.receive(bytearray(10), 0, 2) == ([], [], [])


@pytest.mark.parametrize("events", [READABLE | RECEIVE, WRITABLE, READABLE | WRITABLE])
def test_a_peer_that_is_gone_makes_ready_for_whatever_is_wanted(poll: SocketPoll, pairs: Pairs, events: int):
    ours, theirs = pairs[0]
    poll.watch(ours.fileno(), "a", events)
    theirs.close()
    assert poll.receive(bytearray(10), 0, 10) == ([], [("a", events & ~RECEIVE)], [])


def test_a_peer_that_is_gone_in_disorder_is_lost_and_why_is_said_once(poll: SocketPoll):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peer = socket.create_connection(listening.getsockname())
        ours, _ = listening.accept()
    ours.setblocking(False)
    poll.watch(ours.fileno(), "a", READABLE | WRITABLE | RECEIVE)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    assert has_news(poll, 60)
    assert poll.receive(bytearray(10), 0, 10) == ([], [], [("a", errno.ECONNRESET)])
    assert poll.receive(bytearray(10), 0, 10) == ([], [("a", READABLE | WRITABLE)], [])
    poll.watch(ours.fileno(), "a", 0)
    ours.close()


def test_owners_are_held_until_they_are_watched_no_more(poll: SocketPoll, pairs: Pairs):
    class Owner:
        pass

    def watched(fd: int) -> weakref.ref[Owner]:
        owner = Owner()
        poll.watch(fd, owner, READABLE)
        return weakref.ref(owner)

    first, second, third = (watched(ours.fileno()) for ours, _ in pairs)
    gc.collect()
    assert first() is not None
    poll.watch(pairs[0][0].fileno(), None, 0)
    poll.watch(pairs[1][0].fileno(), "another", READABLE)
    assert (first(), second()) == (None, None)
    assert third() is not None
    poll.close()
    assert third() is None


def test_an_owner_may_come_back_while_it_is_let_go(poll: SocketPoll, pairs: Pairs):
    fd = pairs[0][0].fileno()
    ended: list[int] = []

    class Owner:
        def __del__(self) -> None:
            poll.watch(fd, "successor", READABLE)
            ended.append(fd)

    poll.watch(fd, Owner(), READABLE)
    poll.watch(fd, "next", READABLE)
    assert ended == [fd]
    pairs[0][1].sendall(b"x")
    assert poll.receive(None, 0, 1) == ([], [("successor", READABLE)], [])


def test_what_is_sent_arrives_and_what_is_not_taken_is_said(pairs: Pairs):
    large = bytes(range(256)) * 16_384
    sockets = [ours.fileno() for ours, _ in pairs]
    short = SocketPoll.send(sockets, [[b"one", b"", b" two"], [large], []])
    ((place, taken),) = short
    assert place == 1
    assert 0 < taken < len(large)
    assert pairs[0][1].recv(100) == b"one two"
    received = bytearray()
    while len(received) < taken:
        received += pairs[1][1].recv(1 << 20)
    assert received == large[:taken]


@pytest.mark.parametrize("output", [[b"a", bytearray(b"b")], [memoryview(b"a")], [b"x"] * 513, [b"a", 7]])
def test_an_output_of_anything_but_a_few_bytes_is_left_alone(pairs: Pairs, output: list[object]):
    assert SocketPoll.send([pairs[0][0].fileno(), pairs[1][0].fileno()], [output, [b"sent"]]) == [(0, 0)]
    assert pairs[1][1].recv(100) == b"sent"
    pairs[0][1].setblocking(False)
    with pytest.raises(BlockingIOError):
        pairs[0][1].recv(1)


def test_a_socket_that_is_broken_keeps_nothing_from_the_others(pairs: Pairs):
    pairs[1][1].close()
    sockets = [ours.fileno() for ours, _ in pairs]
    assert SocketPoll.send(sockets, [[b"a"], [b"b"], [b"c"]]) == [(1, 0)]
    assert (pairs[0][1].recv(9), pairs[2][1].recv(9)) == (b"a", b"c")


def test_what_makes_no_sense_is_refused(poll: SocketPoll, pairs: Pairs):
    with pytest.raises(ValueError, match="READABLE"):
        poll.watch(pairs[0][0].fileno(), "a", 8)
    with pytest.raises(ValueError, match="-1"):
        poll.watch(-1, "a", READABLE)
    with pytest.raises(ValueError, match="output"):
        SocketPoll.send([1], [])
    with pytest.raises(OSError, match="Bad file descriptor"):
        poll.watch(100_000, "a", READABLE)
    with pytest.raises(TypeError):
        poll.receive(bytes(10), 0, 10)


def test_a_closed_poll_says_so(poll: SocketPoll, pairs: Pairs):
    poll.close()
    poll.close()
    for call in (
        poll.fileno,
        lambda: poll.watch(pairs[0][0].fileno(), "a", READABLE),
        lambda: poll.receive(None, 0, 1),
    ):
        with pytest.raises(OSError, match="Bad file descriptor"):
            call()
