"""Records of one answer, decoded, of which some were given to the application and some not yet."""

from collections import deque

from ottla.client.consuming.consumer_record import ConsumerRecord, records_of
from ottla.client.consuming.positions import PartitionPosition
from ottla.client.errors import ClientError
from ottla.model.errors import InvalidInputError


class DecodedRecords:
    """What stands between answers and `poll`. The position of the partition follows what was given.

    ```
      answer:    [ given ............ | not yet given ........ ]
                  position.next_offset ^                        ^ end: next_offset when all is given
    ```
    """

    __slots__ = ("_decompressed_bytes_max", "_end", "_generation", "_position", "_records")

    def __init__(self, decompressed_bytes_max: int) -> None:
        self._decompressed_bytes_max = decompressed_bytes_max
        self._records: deque[ConsumerRecord] = deque()
        self._position: PartitionPosition | None = None
        self._generation = 0
        self._end = 0

    def decode(self, position: PartitionPosition) -> None:
        """Decode the answer that waits first; everything decoded before must have been given.

        Raises ClientError, and pauses the partition, for invalid batches.
        """
        assert not self._records
        answer = position.waiting[0]
        try:
            records = records_of(answer, decompressed_bytes_max=self._decompressed_bytes_max)
        except InvalidInputError as error:
            position.paused = True
            raise ClientError(f"{position.topic_partition} at offset {answer.offset}: {error}") from error
        begin = position.next_offset
        position.take()
        if records:
            assert position.next_offset is not None
            self._records.extend(records)
            self._position, self._generation, self._end = position, position.generation, position.next_offset
            position.next_offset = begin

    def give(self, count: int) -> list[ConsumerRecord]:
        """Up to `count` of what is decoded; the position moves behind them."""
        if not self._records or count < 1:
            return []
        records = [self._records.popleft() for _ in range(min(count, len(self._records)))]
        position = self._position
        if position is not None and position.generation == self._generation:
            position.next_offset = records[-1].offset + 1 if self._records else self._end
        return records

    def forget(self) -> None:
        """Give nothing more of it: a partition that is still assigned will be fetched again from there on."""
        position = self._position
        if self._records and position is not None and position.generation == self._generation:
            position.seek(self._records[0].offset)
        self._records.clear()
