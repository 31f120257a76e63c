"""The metadata in the store, whether or not brokers have read it."""

from ottla.metadata.image.delta import apply_records, image_from_snapshot
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import decode_record
from ottla.simulation.whole.store import Ensemble


class DecidedMetadata:
    """Belongs to the world, which looks over everybody's shoulder."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self._image = MetadataImage("")

    @property
    def image(self) -> MetadataImage:
        """The current metadata image of the store."""
        image = self._image
        if image.end_offset == self._ensemble.end_offset:
            return image
        stored = self._ensemble.read(image.end_offset)
        if stored.snapshot is not None:
            image = image_from_snapshot("", map(decode_record, stored.snapshot), stored.start_offset)
        self._image, _ = apply_records(image, map(decode_record, stored.records))
        return self._image

    def is_taken_in(self, broker_id: int) -> bool:
        """Whether the controller has registered the current session of a broker, and so knows what it lost before."""
        live, known = self._ensemble.sessions.get(broker_id), self.image.brokers.get(broker_id)
        return live is not None and known is not None and known.broker_epoch == live.session.broker_epoch
