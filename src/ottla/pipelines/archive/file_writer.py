"""Writes the records of a range of offsets into one Parquet file."""

from pathlib import Path
from typing import Any, Final

from ottla.native import crc32c
from ottla.pipelines.archive.manifest import ArchivedRange, Epoch
from ottla.runtime.disk import Disk

ROW_GROUP_BYTES: Final = 32 << 20
"""The size of a row group in Arrow's memory; a reader decodes one row group at a time."""

ROW_GROUP_ROWS: Final = 200_000
_PIECE_BYTES: Final = 4 << 20


def arrow_schema() -> Any:
    """The columns of a file: those of `spark.read.format("ottla")`, headers included, in its order."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("topic", pa.string()),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp("us", "UTC")),
            pa.field("timestampType", pa.int32()),
            pa.field("headers", pa.list_(pa.field("element", header))),
        ]
    )


class RangeFile:
    """A file that is being written under a temporary name. Call `finish` or `discard`."""

    def __init__(self, directory: Path, start: int, disk: Disk) -> None:
        import pyarrow.parquet as pq

        self.start = start
        self.rows = 0
        self._disk = disk
        self._directory = directory
        disk.make_dir(directory)
        self._path = directory / f"{start:020d}.tmp"
        self._schema = arrow_schema()
        self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd", use_dictionary=["topic"])
        self._waiting: list[Any] = []
        self._waiting_bytes = self._waiting_rows = 0
        self._timestamps: list[int] = []
        self._epochs: list[Epoch] = []

    @property
    def written_bytes(self) -> int:
        """The size of the file, without buffered bytes."""
        size = self._disk.size(self._path)
        return int(size)

    def add(self, records: Any) -> None:
        """Appends a record batch of these columns; its offsets follow the previous ones."""
        self._waiting.append(records)
        self._waiting_bytes += records.nbytes
        self._waiting_rows += records.num_rows
        self.rows += records.num_rows
        if self._waiting_bytes >= ROW_GROUP_BYTES or self._waiting_rows >= ROW_GROUP_ROWS:
            self._write()

    def add_epochs(self, epochs: tuple[Epoch, ...]) -> None:
        """Records the leader epochs of the added batches."""
        for each in epochs:
            if not self._epochs or self._epochs[-1].epoch != each.epoch:
                self._epochs.append(each)

    def finish(self, end: int) -> ArchivedRange:
        """Makes the file durable under its name, and returns the range that it holds."""
        self._write()
        self._writer.close()
        name = f"{self.start:020d}-{end:020d}.parquet"
        self._disk.sync_file(self._path)
        size, checksum = self._disk.size(self._path), checksum_of(self._path, self._disk)
        self._disk.rename(self._path, self._directory / name)
        return ArchivedRange(
            self.start,
            end,
            f"{self._directory.name}/{name}",
            self.rows,
            size,
            checksum,
            min(self._timestamps),
            max(self._timestamps),
            tuple(self._epochs),
        )

    def discard(self) -> None:
        """Removes the file."""
        self._writer.close()
        self._disk.remove(self._path)

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        bounds = pc.min_max(table["timestamp"].cast(pa.int64())).as_py()
        self._timestamps += [bounds["min"] // 1000, bounds["max"] // 1000]
        self._waiting, self._waiting_bytes, self._waiting_rows = [], 0, 0


def checksum_of(path: Path, disk: Disk) -> int:
    """The CRC-32C of a file."""
    fd, position, checksum = disk.open_read(path), 0, 0
    try:
        while piece := disk.pread(fd, _PIECE_BYTES, position):
            checksum = crc32c(piece, checksum)
            position += len(piece)
    finally:
        disk.close(fd)
    return checksum
