"""The kernel's work on record batches, on one core.

    .venv/bin/python benchmarks/kernel_records.py [--json FILE]

Each figure is the best of many runs, which is what the code costs when nothing else wants the core. Values are random
digits, so that the codecs have about half to do. Targets: 16 KB checked and assigned in 2 us, CRC above 10 GB/s,
2.5 million records of 100 bytes a second built, decoded, and to and from Arrow.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from ottla.native import (
    assign_offsets,
    build_batch,
    crc32c,
    decode_arrow,
    decode_records,
    encode_arrow,
    validate_batches,
)
from ottla.records.compression import CompressionType

LIMIT = 1 << 30
SECONDS_PER_FIGURE = 0.3


@dataclass(frozen=True)
class Figure:
    """One measurement."""

    work: str
    value: float
    unit: str


def best_seconds(work: Callable[[], object]) -> float:
    """The shortest time that `work` took within the time there is."""
    best = float("inf")
    end = time.perf_counter() + SECONDS_PER_FIGURE
    while (start := time.perf_counter()) < end:
        work()
        best = min(best, time.perf_counter() - start)
    return best


def best_seconds_of_many(work: Callable[[], object], count: int = 1000) -> float:
    """The same for work that is too short to be timed alone."""

    def repeat() -> None:
        for _ in range(count):
            work()

    return best_seconds(repeat) / count


def headers() -> Iterator[Figure]:
    """What the broker does with every batch."""
    batch = build_batch([(0, None, b"v" * 100, [])] * 148)
    yield Figure(f"validate {len(batch):,} bytes", best_seconds_of_many(lambda: validate_batches(batch)) * 1e6, "us")
    yield Figure("assign its offsets", best_seconds_of_many(lambda: assign_offsets(batch, 7, 1)) * 1e6, "us")
    stamped = build_batch([(0, None, b"v" * 100, [])] * 148)
    stamp = best_seconds_of_many(lambda: assign_offsets(stamped, 7, 1, 1234))
    yield Figure("the same with log-append time", stamp * 1e6, "us")
    large = bytes(1 << 20)
    yield Figure("CRC-32C of 1 MB", len(large) / best_seconds(lambda: crc32c(large)) / 1e9, "GB/s")


def records_of(value_bytes: int, count: int) -> list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]]:
    chance = random.Random(value_bytes)
    digits = [str(chance.randrange(10**20)).encode() for _ in range(count * (value_bytes // 20))]
    per_record = value_bytes // 20
    return [(i, b"key %d" % i, b"".join(digits[i * per_record : (i + 1) * per_record]), []) for i in range(count)]


def records(value_bytes: int, count: int) -> Iterator[Figure]:
    """What clients do with every record."""
    items = records_of(value_bytes, count)

    def rate(work: Callable[[], object]) -> float:
        return count / best_seconds(work) / 1e6

    def arrow(data: bytearray) -> object:
        return decode_arrow(
            data,
            max_decompressed_bytes=LIMIT,
            start_offset=0,
            end_offset=1 << 62,
            topic="benchmark",
            partition=0,
            include_headers=False,
        )

    plain = build_batch(items)
    size = f"{value_bytes:,} B"
    yield Figure(f"{size}: build from tuples", rate(lambda: build_batch(items)), "M records/s")
    yield Figure(
        f"{size}: decode to tuples", rate(lambda: decode_records(plain, max_decompressed_bytes=LIMIT)), "M records/s"
    )
    yield Figure(f"{size}: decode to Arrow", rate(lambda: arrow(plain)), "M records/s")
    table = pa.record_batch(arrow(plain)).select(["key", "value"])
    encode = rate(lambda: encode_arrow(table, partition_count=8, now_ms=0, max_batch_bytes=16_384))
    yield Figure(f"{size}: encode Arrow by key to 8 partitions", encode, "M records/s")
    for codec in list(CompressionType)[1:]:
        packed = build_batch(items, codec=codec)
        yield Figure(
            f"{size}: build, {codec.setting}", rate(lambda c=codec: build_batch(items, codec=c)), "M records/s"
        )
        yield Figure(f"{size}: to Arrow, {codec.setting}", rate(lambda p=packed: arrow(p)), "M records/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    table = Table("work", "result", "unit", title="record batches, one core")
    table.columns[1].justify = "right"
    figures = [*headers(), *records(100, 5000), *records(1000, 1000)]
    for figure in figures:
        table.add_row(figure.work, f"{figure.value:,.2f}", figure.unit)
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")


if __name__ == "__main__":
    main()
