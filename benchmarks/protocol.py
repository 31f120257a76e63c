"""The message codec: what the requests and responses of a busy broker cost, beside kio and beside their targets.

    .venv/bin/python benchmarks/protocol.py [--json FILE]

Times are the best of several rounds, in microseconds, of one thread. kio is an independent implementation of the same
messages with a native decoder and a Python encoder.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

from kio.schema.fetch.v13.request import FetchRequest as KioFetchRequest
from kio.schema.metadata.v12.response import MetadataResponse as KioMetadataResponse
from kio.schema.produce.v9.request import ProduceRequest as KioProduceRequest
from kio.schema.produce.v9.response import ProduceResponse as KioProduceResponse
from kio.serial import entity_reader, entity_writer
from rich.console import Console
from rich.table import Table

from ottla.protocol import frame
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

ROUNDS = 15
PARTITIONS = range(1000)
TOPIC_ID = UUID("6f0c0e0a-7f0e-4b3a-9f38-4d4f0f5a3c21")


@dataclass(frozen=True)
class Row:
    """One measurement, in microseconds. `kio_us` and `target_us` are None where there is nothing to compare."""

    work: str
    ottla_us: float
    kio_us: float | None
    target_us: float | None


def microseconds(work: Callable[[], object]) -> float:
    """The time of one call, the best of several rounds with as many calls as take a twentieth of a second."""
    timer = timeit.Timer(work, setup=gc.collect)
    calls, seconds = timer.autorange()
    calls = max(1, int(calls * 0.05 / seconds))
    return min(timer.repeat(ROUNDS, calls)) / calls * 1e6


def produce_rows() -> list[Row]:
    """One partition with a batch of 16 KiB, as producers send it."""
    partition = PartitionProduceData(index=3, records=bytes(16384))
    request = ProduceRequest(
        acks=-1, timeout_ms=30000, topic_data=(TopicProduceData(name="flights", partition_data=(partition,)),)
    )
    data = frame.encode_request(7, "a-producer", request, 9)[4:]
    body_offset = frame.decode_request_header(data).body_offset
    body = data[body_offset:]
    view = memoryview(bytearray(data))
    response = ProduceResponse(
        responses=(
            TopicProduceResponse(
                name="flights", partition_responses=(PartitionProduceResponse(index=3, base_offset=123456789),)
            ),
        )
    )
    read_request, read_response = entity_reader(KioProduceRequest), entity_reader(KioProduceResponse)
    write_response = entity_writer(KioProduceResponse)
    kio_response, _ = read_response(response.encode(9), 0)

    def both() -> None:
        head = frame.decode_request_header(view)
        ProduceRequest.decode(head.api_version, view, head.body_offset)
        frame.encode_response_parts(head.correlation_id, response, 9)

    def kio_both() -> None:
        read_request(body, 0)
        write_response(io.BytesIO(), kio_response)

    return [
        Row("Produce header decoded", microseconds(lambda: frame.decode_request_header(view)), None, None),
        Row("Produce request decoded", microseconds(lambda: ProduceRequest.decode(9, view, body_offset)), None, None),
        Row("Produce response encoded", microseconds(lambda: frame.encode_response_parts(7, response, 9)), None, None),
        Row("Produce request and response", microseconds(both), microseconds(kio_both), 5),
    ]


def metadata_rows() -> list[Row]:
    """One topic of 1,000 partitions with three replicas, three brokers."""
    brokers = tuple(MetadataResponseBroker(node_id=n, host=f"broker-{n}.example.org", port=9092) for n in range(3))
    partitions = tuple(
        MetadataResponsePartition(
            partition_index=n, leader_id=n % 3, leader_epoch=5, replica_nodes=(0, 1, 2), isr_nodes=(0, 1, 2)
        )
        for n in PARTITIONS
    )
    topic = MetadataResponseTopic(name="flights", topic_id=TOPIC_ID, partitions=partitions)
    response = MetadataResponse(brokers=brokers, cluster_id="a-cluster", controller_id=1, topics=(topic,))
    data = response.encode(12)
    read, write = entity_reader(KioMetadataResponse), entity_writer(KioMetadataResponse)
    kio_response, _ = read(data, 0)
    return [
        Row(
            "Metadata of 1,000 partitions encoded",
            microseconds(lambda: frame.encode_response(7, response, 12)),
            microseconds(lambda: write(io.BytesIO(), kio_response)),
            2000,
        ),
        Row(
            "Metadata of 1,000 partitions decoded",
            microseconds(lambda: MetadataResponse.decode(12, data)),
            microseconds(lambda: read(data, 0)),
            None,
        ),
    ]


def fetch_rows() -> list[Row]:
    """One topic of 1,000 partitions, as a consumer asks for it at the start of a session."""
    partitions = tuple(
        FetchPartition(partition=n, current_leader_epoch=5, fetch_offset=1_000_000 + n, partition_max_bytes=1 << 20)
        for n in PARTITIONS
    )
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=(FetchTopic(topic_id=TOPIC_ID, partitions=partitions),)
    )
    data = request.encode(13)
    read = entity_reader(KioFetchRequest)
    return [
        Row(
            "Fetch of 1,000 partitions decoded",
            microseconds(lambda: FetchRequest.decode(13, data)),
            microseconds(lambda: read(data, 0)),
            1000,
        )
    ]


def table(rows: list[Row]) -> Table:
    table = Table(title="Message codec, microseconds")
    for column in ("work", "ottla", "kio", "target"):
        table.add_column(column, justify="left" if column == "work" else "right")
    for row in rows:
        numbers = (row.ottla_us, row.kio_us, row.target_us)
        table.add_row(row.work, *("" if number is None else f"{number:,.2f}" for number in numbers))
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the message codec.")
    parser.add_argument("--json", type=Path, help="write the measurements here as well")
    arguments = parser.parse_args()
    rows = [*produce_rows(), *metadata_rows(), *fetch_rows()]
    Console().print(table(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))
    missed = [row.work for row in rows if row.target_us is not None and row.ottla_us > row.target_us]
    for work in missed:
        print(f"target missed: {work}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
