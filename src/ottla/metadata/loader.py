"""Metadata loading: from the metadata log to the image that this broker acts by.

    store --- snapshot, records ---> load() ------+
    store --- records of others ---> catch_up() --+
    controller --- own records ----> advance() ---+--> image, delta ---> subscribers ---> shown to everybody
    store <--- snapshot --- compact()

Every broker loads; only the controller decides. A broker that is not the controller hears of new records from the store
(`MetadataStore.watch`) and catches up with them.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from ottla.metadata.image.delta import MetadataDelta, apply_records, image_from_snapshot, snapshot_records
from ottla.metadata.image.difference import difference
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.records import MetadataRecord, decode_record, encode_record
from ottla.metadata.store.interface import MetadataStore, StoredRecords, StoreError
from ottla.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

SNAPSHOT_AFTER_RECORDS: Final = 10_000
"""The log is replaced by a snapshot when it has grown by this many records, and by more than the snapshot has."""


class MetadataLoader:
    """Keeps the image of one broker. Belongs to the event loop; images follow each other one at a time."""

    def __init__(self, store: MetadataStore, tasks: Tasks) -> None:
        self._store = store
        self._tasks = tasks
        self._snapshot_offset = 0
        self._turn = asyncio.Lock()
        self.publisher = MetadataPublisher(MetadataImage(""))
        """Who acts on each image, and the newest one they are done with."""

    @property
    def image(self) -> MetadataImage:
        """The newest image whose topics have their partitions on this broker."""
        return self.publisher.image

    async def load(self, cluster_id: str) -> MetadataImage:
        """Read the whole log, before anybody subscribes.

        Raises StoreError, and InvalidInputError when the stored metadata is damaged.
        """
        stored = await self._store.read(-1)
        image = image_from_snapshot(cluster_id, map(decode_record, stored.snapshot or ()), stored.start_offset)
        self._snapshot_offset = stored.start_offset
        image, _ = apply_records(image, map(decode_record, stored.records))
        self.publisher.image = image
        return image

    async def hold(self) -> None:
        """Let no further image come, and no decision be seen, until `release`: there are subscribers to be added."""
        await self._turn.acquire()

    def release(self) -> None:
        """End what `hold` began."""
        self._turn.release()

    async def advance(self, records: Sequence[MetadataRecord], *, from_offset: int) -> MetadataImage:
        """Act on records that were appended at `from_offset`; when this returns, everybody sees them.

        What is in the image already is passed over: another controller may have been followed since the append.
        """
        async with self._turn:
            seen = self.image.end_offset - from_offset
            if seen < len(records):
                image, delta = apply_records(self.image, records[seen:])
                await self.publisher.publish(image, delta)
            return self.image

    async def catch_up(self) -> MetadataImage:
        """Act on what the log has and the image has not.

        Raises StoreError, and InvalidInputError when the stored metadata is damaged.
        """
        async with self._turn:
            base = self.image
            stored = await self._store.read(base.end_offset)
            image, delta = self._follow(base, stored)
            if image is not base:
                await self.publisher.publish(image, delta)
            return self.image

    def _follow(self, base: MetadataImage, stored: StoredRecords) -> tuple[MetadataImage, MetadataDelta]:
        if stored.snapshot is None:
            if not stored.records:
                return base, MetadataDelta(base)
            return apply_records(base, map(decode_record, stored.records))
        self._snapshot_offset = stored.start_offset
        image = image_from_snapshot(base.cluster_id, map(decode_record, stored.snapshot), stored.start_offset)
        image, _ = apply_records(image, map(decode_record, stored.records))
        return difference(base, image)

    async def compact(self, controller_epoch: int) -> None:
        """Replace a long log by a snapshot; a failure leaves the log, which is as good. For the controller alone."""
        image = self.image
        if image.end_offset - self._snapshot_offset <= max(SNAPSHOT_AFTER_RECORDS, len(image.topics_by_id)):
            return
        encoded = await self._tasks.in_thread(lambda: list(map(encode_record, snapshot_records(image))))
        try:
            await self._store.write_snapshot(encoded, controller_epoch=controller_epoch, end_offset=image.end_offset)
        except StoreError as error:
            logger.warning("could not compact the metadata log: %s", error)
        self._snapshot_offset = image.end_offset
