"""How a broker registers that is alone, and always was: what most brokers do, without what decides about several."""

from collections.abc import Sequence
from uuid import UUID

from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import BrokerRegisteredRecord, BrokerRemovedRecord, MetadataRecord
from ottla.metadata.registration import BrokerRegistration, decode_registration
from ottla.metadata.store.interface import LiveBroker


def decide_lone_registration(
    image: MetadataImage, live: Sequence[LiveBroker], own_id: int
) -> tuple[MetadataRecord, ...] | None:
    """The records that register the one broker with a session; None when there is more to decide about.

    It holds every replica and leads all of them: nobody could take one of its lives for another, and its leader epochs
    stay. Brokers without a session hold nothing, and are taken out. Raises InvalidInputError.
    """
    if [broker.broker_id for broker in live] != [own_id]:
        return None
    alone = (own_id,)
    for topic in image.topics_by_id.values():
        for partition in topic.partitions:
            if partition.leader != own_id or partition.replicas != alone:
                return None
    (session,) = live
    known = image.brokers.get(own_id)
    records: list[MetadataRecord] = [BrokerRemovedRecord(each) for each in image.brokers if each != own_id]
    if known is None or known.broker_epoch != session.broker_epoch:
        records.append(registered(session, decode_registration(session.registration), fenced=False))
    elif not known.is_active:
        return None
    return tuple(records)


def registered(
    session: LiveBroker,
    said: BrokerRegistration,
    *,
    fenced: bool,
    shutting_down: bool = False,
    offline: tuple[UUID, ...] = (),
) -> BrokerRegisteredRecord:
    """The record of a session, with what its broker said."""
    return BrokerRegisteredRecord(
        session.broker_id,
        session.broker_epoch,
        said.host,
        said.port,
        said.rack,
        said.endpoints,
        said.incarnation,
        said.directories,
        said.flush,
        fenced,
        shutting_down,
        offline,
    )
