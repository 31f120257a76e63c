"""Frames, ids and names of the NSQ gateway."""

import doctest
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.nsq import command_reader, frame, names, tls_names
from ottla.gateways.nsq import message_id as ids


def test_frames_have_the_bytes_of_the_specification() -> None:
    assert bytes.fromhex("00000006 00000000") + b"OK" == frame.OK
    assert frame.response(b"_heartbeat_") == frame.HEARTBEAT
    assert frame.response(b"CLOSE_WAIT") == frame.CLOSE_WAIT
    assert frame.error(b"E_INVALID x") == bytes.fromhex("0000000f 00000001") + b"E_INVALID x"
    told = frame.message(b"0123456789abcdef", 1 << 60, 70_000, b"body")
    assert told == bytes.fromhex("00000022 00000002 1000000000000000 ffff") + b"0123456789abcdef" + b"body"


@given(st.integers(0, ids.PARTITION_MAX), st.integers(0, ids.OFFSET_MAX))
def test_an_id_says_where_the_record_is(partition: int, offset: int) -> None:
    made = ids.message_id(partition, offset)
    assert len(made) == ids.ID_BYTES
    assert ids.parse_message_id(made) == (partition, offset)


def test_an_id_of_another_server_is_none() -> None:
    assert ids.parse_message_id(b"0123456789ABCDEF") is None


@given(st.from_regex(r"\A[.a-zA-Z0-9_-]{1,64}(#ephemeral)?\Z"))
def test_a_name_comes_back(name: str) -> None:
    if names.is_valid_topic_name(name):
        assert names.nsq_topic_of(names.topic_of(name)) == name


def test_lengths_of_names_include_the_suffix() -> None:
    assert names.is_valid_name("a" * 64)
    assert not names.is_valid_name("a" * 65)
    assert names.is_valid_name("a" * 54 + "#ephemeral")
    assert not names.is_valid_name("a" * 55 + "#ephemeral")
    assert not names.is_valid_name("a\n")
    assert not names.is_valid_topic_name(".")
    assert names.nsq_topic_of("a" * 65) is None


@pytest.mark.parametrize("module", [command_reader, names, ids, tls_names])
def test_the_examples_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
