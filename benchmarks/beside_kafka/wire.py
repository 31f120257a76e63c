"""A client of a few lines, for moments that a real one would blur: the first answer, the first acknowledgement."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass

from ottla.native import build_batch
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_VERSION = 9
CREATE_TOPICS_VERSION = 7
ALTER_QUOTAS_VERSION = 1
TOPIC_ALREADY_EXISTS = 36
RETRY_S = 0.002
PATIENCE_S = 120.0


@dataclass
class Wire:
    """One blocking connection."""

    sock: socket.socket

    @classmethod
    def connect(cls, port: int) -> Wire:
        sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(sock)

    def ask(self, message: ApiMessage, version: int) -> ApiMessage:
        """One request and its response."""
        self.sock.sendall(encode_request(1, "bench", message, version))
        (size,) = struct.unpack(">i", self._exactly(4))
        return decode_response(message.API_KEY, version, self._exactly(size))[1]

    def close(self) -> None:
        self.sock.close()

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            part = self.sock.recv(count - len(received))
            if not part:
                raise ConnectionError("the broker closed the connection")
            received += part
        return bytes(received)


def limit_client(port: int, client_id: str, **quotas: float) -> None:
    """Sets quotas of a client id; returns when the broker at `port` has them in force."""
    entity = (EntityData(entity_type="client-id", entity_name=client_id),)
    changes = tuple(OpData(key=key, value=value) for key, value in quotas.items())
    entry = RequestEntryData(entity=entity, ops=changes)
    part = ComponentData(entity_type="client-id", match_type=0, match=client_id)
    connection = Wire.connect(port)
    try:
        altered = connection.ask(AlterClientQuotasRequest(entries=(entry,)), ALTER_QUOTAS_VERSION)
        assert isinstance(altered, AlterClientQuotasResponse)
        if altered.entries[0].error_code:
            raise RuntimeError(f"the quota was refused: {altered.entries[0].error_message}")
        until = time.perf_counter() + PATIENCE_S
        while time.perf_counter() < until:
            described = connection.ask(DescribeClientQuotasRequest(components=(part,)), ALTER_QUOTAS_VERSION)
            assert isinstance(described, DescribeClientQuotasResponse)
            if described.entries:
                return
            time.sleep(RETRY_S)
        raise TimeoutError("the quota is not in force")
    finally:
        connection.close()


def produce_request(topic: str, size: int = 100, partition: int = 0) -> ProduceRequest:
    """acks=all for one record of `size` bytes."""
    records = bytes(build_batch([(0, None, b"x" * size, ())]))
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=(TopicProduceData(name=topic, partition_data=(data,)),)
    )


def first_answer(port: int) -> Wire:
    """Tries until the broker answers a request, and returns the connection on which it did.

    Raises:
        TimeoutError: there was no answer in two minutes.
    """
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            wire = Wire.connect(port)
        except OSError:
            time.sleep(RETRY_S)
            continue
        try:
            wire.ask(ApiVersionsRequest(), 0)
        except OSError:
            wire.close()
            time.sleep(RETRY_S)
            continue
        return wire
    raise TimeoutError(f"port {port} did not answer in {PATIENCE_S:.0f} s")


def create_topic(wire: Wire, topic: str) -> None:
    """Tries until the topic of one partition is there."""
    request = CreateTopicsRequest(
        topics=(CreatableTopic(name=topic, num_partitions=1, replication_factor=1),), timeout_ms=10_000
    )
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        (result,) = wire.ask(request, CREATE_TOPICS_VERSION).topics  # type: ignore[attr-defined]
        if result.error_code in (0, TOPIC_ALREADY_EXISTS):
            return
        time.sleep(RETRY_S)
    raise TimeoutError(f"{topic} could not be created in {PATIENCE_S:.0f} s: error {result.error_code}")


def first_acknowledgement(wire: Wire, topic: str) -> None:
    """Tries until a record is acknowledged."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        (of_topic,) = wire.ask(produce_request(topic), PRODUCE_VERSION).responses  # type: ignore[attr-defined]
        error = of_topic.partition_responses[0].error_code
        if error == 0:
            return
        time.sleep(RETRY_S)
    raise TimeoutError(f"no record was acknowledged in {PATIENCE_S:.0f} s: error {error}")
