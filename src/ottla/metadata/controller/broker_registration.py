"""Decides which brokers the metadata shows: those whose session in the store has not ended."""

from collections.abc import Sequence

from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import BrokerRegisteredRecord, BrokerRemovedRecord, MetadataRecord
from ottla.metadata.registration import decode_registration
from ottla.metadata.store.interface import LiveBroker


def decide_registrations(image: MetadataImage, live: Sequence[LiveBroker]) -> list[MetadataRecord]:
    """Take out the brokers that are gone, and in those that came, or came back with another broker epoch."""
    live_ids = {broker.broker_id for broker in live}
    records: list[MetadataRecord] = [
        BrokerRemovedRecord(broker_id) for broker_id in image.brokers if broker_id not in live_ids
    ]
    for broker in live:
        known = image.brokers.get(broker.broker_id)
        if known is None or known.broker_epoch != broker.broker_epoch:
            said = decode_registration(broker.registration)
            records.append(
                BrokerRegisteredRecord(broker.broker_id, broker.broker_epoch, said.host, said.port, said.rack)
            )
    return records
