"""Commands of NSQ clients: the texts are those that nsqd 1.3.0 sends."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.nsq.command import (
    Auth,
    Command,
    Finish,
    FinishMany,
    Identify,
    Nop,
    Publish,
    Ready,
    Requeue,
    StartClose,
    Subscribe,
    Touch,
)
from ottla.gateways.nsq.command_reader import LINE_BYTES_MAX, CommandReader, ConnectionState, LineTooLongError
from ottla.gateways.nsq.error import NsqError
from ottla.gateways.nsq.limits import NsqLimits

ID = b"000700000001e240"
LIMITS = NsqLimits()


def sized(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def reader(state: ConnectionState = ConnectionState.INIT) -> CommandReader:
    made = CommandReader(LIMITS)
    made.feed(b"  V2")
    made.state = state
    return made


def all_of(made: CommandReader) -> list[Command]:
    found = []
    while (command := made.next()) is not None:
        found.append(command)
    return found


SESSION: list[tuple[bytes, Command]] = [
    (b"IDENTIFY\n" + sized(b"{}"), Identify(b"{}")),
    (b"AUTH\n" + sized(b"secret"), Auth(b"secret")),
    (b"NOP\n", Nop()),
    (b"PUB clicks\r\n" + sized(b"a\nb"), Publish("PUB", "clicks", [b"a\nb"])),
    (
        b"MPUB t#ephemeral\n" + sized(b"\0\0\0\2" + sized(b"a") + sized(b"bc")),
        Publish("MPUB", "t#ephemeral", [b"a", b"bc"]),
    ),
    (b"DPUB t 3600000\n" + sized(b"x"), Publish("DPUB", "t", [b"x"], 3_600_000)),
    (b"SUB clicks archive\n", Subscribe("clicks", "archive")),
    (b"RDY 2500\n", Ready(2500)),
    (b"RDY\n", Ready(1)),
    (b"FIN " + ID + b"\n", FinishMany((int(ID, 16),))),
    (b"FIN 0123456789abcdeX\n", Finish(b"0123456789abcdeX")),
    (b"FIN " + ID + b"\r\n", Finish(ID)),
    (b"REQ " + ID + b" 3600001\n", Requeue(ID, 3_600_000)),
    (b"TOUCH " + ID + b"\n", Touch(ID)),
    (b"CLS\n", StartClose()),
    (b"RDY 5\n", Nop()),
    (b"FIN " + ID + b"\n", FinishMany((int(ID, 16),))),
]


def test_a_session_is_read_whatever_its_pieces_are() -> None:
    stream = b"  V2" + b"".join(said for said, _ in SESSION)
    expected = [command for _, command in SESSION]
    for size in (1, 3, 7, len(stream)):
        made = CommandReader(LIMITS)
        found = []
        for start in range(0, len(stream), size):
            made.feed(stream[start : start + size])
            found += all_of(made)
        assert found == expected
        assert made.buffered_bytes == 0


INIT, SUBSCRIBED, CLOSING = ConnectionState.INIT, ConnectionState.SUBSCRIBED, ConnectionState.CLOSING


@pytest.mark.parametrize(
    ("state", "said", "told"),
    [
        (INIT, b"nop\n", b"E_INVALID invalid command nop"),
        (INIT, b"\n", b"E_INVALID invalid command "),
        (INIT, b"PUB\n", b"E_INVALID PUB insufficient number of parameters"),
        (INIT, b"PUB bad$topic\n", b'E_BAD_TOPIC PUB topic name "bad$topic" is not valid'),
        (INIT, b"MPUB bad$topic\n", b'E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "bad$topic" is not valid'),
        (INIT, b"PUB " + b"a" * 65 + b"\n", b'E_BAD_TOPIC PUB topic name "' + b"a" * 65 + b'" is not valid'),
        (INIT, b"PUB t\n\0\0\0\0", b"E_BAD_MESSAGE PUB invalid message body size 0"),
        (INIT, b"PUB t\n\xff\xff\xff\xff", b"E_BAD_MESSAGE PUB invalid message body size -1"),
        (INIT, b"PUB t\n" + (1048577).to_bytes(4, "big"), b"E_BAD_MESSAGE PUB message too big 1048577 > 1048576"),
        (INIT, b"MPUB t\n\0\0\0\0", b"E_BAD_BODY MPUB invalid body size 0"),
        (INIT, b"MPUB t\n" + (5242881).to_bytes(4, "big"), b"E_BAD_BODY MPUB body too big 5242881 > 5242880"),
        (INIT, b"MPUB t\n" + sized(b"\0\0\0\0"), b"E_BAD_BODY MPUB invalid message count 0"),
        (INIT, b"MPUB t\n" + sized(b"\x7f\0\0\0"), b"E_BAD_BODY MPUB invalid message count 2130706432"),
        (INIT, b"MPUB t\n" + sized(b"\0\0\0\1\0\0\0\0"), b"E_BAD_MESSAGE MPUB invalid message(0) body size 0"),
        (
            INIT,
            b"MPUB t\n" + sized(b"\0\0\0\2" + sized(b"a")),
            b"E_BAD_MESSAGE MPUB failed to read message(1) body size",
        ),
        (INIT, b"DPUB t\n", b"E_INVALID DPUB insufficient number of parameters"),
        (INIT, b"DPUB t x\n", b"E_INVALID DPUB could not parse timeout x"),
        (INIT, b"DPUB t 3600001\n", b"E_INVALID DPUB timeout 3600001 out of range 0-3600000"),
        (INIT, b"DPUB t 18446744073709551615\n", b"E_INVALID DPUB timeout 18446744073709551615 out of range 0-3600000"),
        (INIT, b"DPUB t -1\n", b"E_INVALID DPUB could not parse timeout -1"),
        (INIT, b"SUB t\n", b"E_INVALID SUB insufficient number of parameters"),
        (INIT, b"SUB t c$\n", b'E_BAD_CHANNEL SUB channel name "c$" is not valid'),
        (INIT, b"SUB t\xff c\n", b'E_BAD_TOPIC SUB topic name "t\\xff" is not valid'),
        (INIT, b"RDY x\n", b"E_INVALID cannot RDY in current state"),
        (INIT, b"FIN x\n", b"E_INVALID cannot FIN in current state"),
        (INIT, b"CLS\n", b"E_INVALID cannot CLS in current state"),
        (INIT, b"IDENTIFY\n\0\0\0\0", b"E_BAD_BODY IDENTIFY invalid body size 0"),
        (INIT, b"AUTH a\n", b"E_INVALID AUTH invalid number of parameters"),
        (SUBSCRIBED, b"SUB t c\n", b"E_INVALID cannot SUB in current state"),
        (SUBSCRIBED, b"IDENTIFY\n", b"E_INVALID cannot IDENTIFY in current state"),
        (SUBSCRIBED, b"RDY x\n", b"E_INVALID RDY could not parse count x"),
        (SUBSCRIBED, b"RDY 2501\n", b"E_INVALID RDY count 2501 out of range 0-2500"),
        (SUBSCRIBED, b"RDY -1\n", b"E_INVALID RDY could not parse count -1"),
        (SUBSCRIBED, b"RDY 18446744073709551615\n", b"E_INVALID RDY count -1 out of range 0-2500"),
        (SUBSCRIBED, b"RDY " + b"9" * 23 + b"\n", b"E_INVALID RDY count 200376420520689663 out of range 0-2500"),
        (SUBSCRIBED, b"FIN short\n", b"E_INVALID invalid message ID"),
        (SUBSCRIBED, b"REQ " + ID + b"\n", b"E_INVALID REQ insufficient number of params"),
        (SUBSCRIBED, b"REQ " + ID + b" x\n", b"E_INVALID REQ could not parse timeout x"),
        (SUBSCRIBED, b"TOUCH\n", b"E_INVALID TOUCH insufficient number of params"),
        (CLOSING, b"CLS\n", b"E_INVALID cannot CLS in current state"),
    ],
)
def test_what_is_wrong_with_a_command_is_said_in_the_words_of_nsqd(
    state: ConnectionState, said: bytes, told: bytes
) -> None:
    made = reader(state)
    made.feed(said)
    with pytest.raises(NsqError) as raised:
        made.next()
    assert raised.value.line == told
    assert raised.value.is_fatal


def test_another_protocol_is_refused() -> None:
    made = CommandReader(LIMITS)
    made.feed(b"GET / HTTP/1.1\r\n")
    with pytest.raises(NsqError) as raised:
        made.next()
    assert raised.value.line == b"E_BAD_PROTOCOL"


def test_a_client_without_heartbeats_cannot_subscribe() -> None:
    made = reader()
    made.has_heartbeats = False
    made.feed(b"SUB t c\n")
    with pytest.raises(NsqError, match="cannot SUB with heartbeats disabled"):
        made.next()


def test_a_line_without_an_end_is_too_long_at_the_size_of_the_buffer_of_nsqd() -> None:
    made = reader()
    made.feed(b"P" * (LINE_BYTES_MAX - 1))
    assert made.next() is None
    made.feed(b"P")
    with pytest.raises(LineTooLongError):
        made.next()


@given(st.binary(max_size=200), st.sampled_from(list(ConnectionState)))
def test_any_bytes_give_commands_or_an_error(data: bytes, state: ConnectionState) -> None:
    made = reader(state)
    made.feed(data)
    with suppress(NsqError):
        assert all(isinstance(command, Command) for command in all_of(made))


def test_publishes_and_finishes_that_arrive_together_are_one_command_until_another_comes_between() -> None:
    made = CommandReader(LIMITS)
    pub = b"PUB clicks\n"
    made.feed(b"  V2" + pub + sized(b"a") + pub + sized(b"bc") + b"PUB other\n" + sized(b"d") + pub + sized(b"")[:3])
    assert all_of(made) == [Publish("PUB", "clicks", [b"a", b"bc"]), Publish("PUB", "other", [b"d"])]
    made.feed(sized(b"e")[3:] + pub + sized(b""))
    assert made.next() == Publish("PUB", "clicks", [b"e"])
    with pytest.raises(NsqError, match="PUB invalid message body size 0"):
        made.next()
    reading = CommandReader(LIMITS)
    fin = b"FIN " + ID + b"\n"
    reading.feed(b"  V2SUB t c\n" + fin * 3 + b"RDY 1\n" + fin + fin[:-1])
    number = int(ID, 16)
    assert all_of(reading) == [
        Subscribe("t", "c"),
        FinishMany((number,) * 3),
        Ready(1),
        FinishMany((number,)),
    ]


def test_publishes_are_one_command_up_to_a_size() -> None:
    made = CommandReader(LIMITS)
    body = b"x" * 100_000
    made.feed(b"  V2" + (b"PUB t\n" + sized(body)) * 10)
    assert [len(command.bodies) for command in all_of(made) if isinstance(command, Publish)] == [4, 4, 2]


def test_without_the_tls_that_is_required_every_command_is_refused_also_one_that_there_is_not() -> None:
    for name in (b"PUB t", b"SUB t c", b"NOP", b"nop"):
        reader = CommandReader(NsqLimits(is_tls_required=True))
        reader.feed(b"  V2" + name + b"\n")
        with pytest.raises(NsqError) as raised:
            reader.next()
        refused = name.split(b" ")[0]
        assert raised.value.line == b"E_INVALID cannot " + refused + b" in current state (TLS required)"
