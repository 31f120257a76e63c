"""Counts and lengths that promise gigabytes, in every array, string and tagged field of every request served."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.apis import APIS
from ottla.protocol.api_keys import APIS as ALL_APIS
from tests.broker_process import BrokerProcess
from tests.hostile.lying_requests import lies
from tests.hostile.process_memory import peak_mib
from tests.hostile.raw_peer import RawPeer, framed, header, lines_about
from tests.unit.protocol.reference_codec import unsigned_varint

GROWTH_MAX_MIB = 16


def versions(api: Api) -> list[int]:
    """The first, the last, and those around the change to the flexible form."""
    first_flexible = ALL_APIS[api.key].first_flexible_version
    around = [] if first_flexible is None else [first_flexible - 1, first_flexible]
    return sorted({api.min_version, api.max_version, *(version for version in around if api.serves(version))})


def is_flexible(api: Api, version: int) -> bool:
    first = ALL_APIS[api.key].first_flexible_version
    return first is not None and version >= first


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose memory nobody else moves."""
    with BrokerProcess(tmp_path_factory.mktemp("counts") / "data") as broker:
        yield broker


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
def test_a_count_that_lies_closes_the_connection_and_reserves_nothing(target: BrokerProcess, api: Api):
    before = peak_mib(target)
    told = 0
    for version in versions(api):
        for body in lies(api.request_type, version):
            with RawPeer(target.port) as stranger:
                stranger.send(framed(header(api.key, version, flexible=is_flexible(api, version)) + body))
                assert stranger.closed_with() == b"", (version, body)
            told += 1
    assert told
    assert peak_mib(target) - before < GROWTH_MAX_MIB
    with RawPeer(target.port) as peer:
        assert peer.is_served()


def test_an_array_as_long_as_its_bytes_allow_is_refused_before_it_is_read(new_broker: Callable[..., BrokerProcess]):
    broker = new_broker().start()
    before = peak_mib(broker)
    elements = 20 << 20
    body = unsigned_varint(elements + 1) + b"\x01\x00" * elements + b"\0\0\0\0"
    with RawPeer(broker.port) as stranger:
        stranger.send(framed(header(3, 9, flexible=True) + body))
        assert stranger.closed_with() == b""
        address = stranger.address
    assert peak_mib(broker) - before < 100 + GROWTH_MAX_MIB  # the request itself, while it grew
    (line,) = lines_about(address, broker.stopped_log())
    assert "more than 131072 elements" in line
