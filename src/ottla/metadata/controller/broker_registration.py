"""Decides about sessions that came and went: who is registered, with which epoch, and what of its copies still counts.

    session, no such broker                   registered, fenced until its heartbeats show that it has read the metadata
    session with a newer epoch, other process the one before is fenced; then the same
    session with a newer epoch, same process  it only lost touch with the store: the new epoch, nothing else
    no session any more                       fenced

What a broker has in its directories counts less after

    a directory is missing that it had,       it leaves ISR and ELR, and is not waited for: what it had is gone, or
    or a clean stop before the last one       an old copy came back
    a stop that was not clean, where nothing  it leaves ISR and ELR, and may still be the last to have led
    was flushed before it was acknowledged

A broker that is alone has nobody to be taken for another by: partitions of which it has the only replica stay as they
are, with their leader epoch, and it is unfenced at once.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from ottla.metadata.controller.broker_fencing import elect_in, fence_in, lose_in
from ottla.metadata.controller.decision import Decision, LogLine
from ottla.metadata.controller.lone_registration import registered
from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.metadata.controller.topic_replication import ReplicationRules
from ottla.metadata.image.image import ALL_BROKERS, BrokerImage, MetadataImage
from ottla.metadata.records import (
    BrokerChangedRecord,
    BrokerRemovedRecord,
    MetadataRecord,
    parse_topic_id,
)
from ottla.metadata.registration import BrokerRegistration, decode_registration
from ottla.metadata.store.interface import LiveBroker
from ottla.model.errors import InvalidInputError
from ottla.settings.topic_settings import MIN_ISR


class Refusal(NamedTuple):
    """Why a session is not taken into the cluster."""

    broker_epoch: int
    reason: str


class _Came(NamedTuple):
    live: LiveBroker
    said: BrokerRegistration
    known: BrokerImage | None

    @property
    def is_same_process(self) -> bool:
        return (
            self.known is not None and bool(self.said.incarnation) and self.known.incarnation == self.said.incarnation
        )


def flush_refusal(image: MetadataImage, broker_id: int, *, flush: bool) -> str | None:
    """Why a broker cannot join that flushes, or does not, before it acknowledges, unlike the others; None if it can.

    What the ISR promises after a power cut rests on all of them doing the same.
    """
    for other in image.live_brokers().values():
        if other.broker_id != broker_id and other.flush != flush:
            ours, theirs = str(flush).lower(), str(other.flush).lower()
            return (
                f"broker {broker_id} has log.flush.before.ack={ours}, and broker {other.broker_id}, which runs, has "
                f"{theirs}: start it with log.flush.before.ack={theirs}, or stop all brokers to change it for all"
            )
    return None


def registration_refusal(
    image: MetadataImage, live: Sequence[LiveBroker], broker_id: int, said: BrokerRegistration
) -> str | None:
    """Why a broker cannot be one of a cluster as it registers, None if it can; `live` are all sessions.

    It is compared with the brokers that run, by what they said themselves when they registered.
    """
    reason = flush_refusal(image, broker_id, flush=said.flush)
    if reason is not None:
        return reason
    running = image.live_brokers()
    for session in live:
        other = running.get(session.broker_id)
        if other is None or session.broker_id == broker_id or other.broker_epoch != session.broker_epoch:
            continue
        reason = _conflict(image, broker_id, said, session.broker_id, decode_registration(session.registration))
        if reason is not None:
            return reason
    return None


def _conflict(
    image: MetadataImage, broker_id: int, said: BrokerRegistration, other_id: int, other: BrokerRegistration
) -> str | None:
    ours, theirs = said.min_isr, other.min_isr
    if None not in (ours, theirs) and ours != theirs and MIN_ISR not in image.config(ALL_BROKERS):
        # Who leaves an ISR keeps what is committed by the leader's value, and is eligible by the controller's.
        return (
            f"broker {broker_id} has {MIN_ISR}={ours}, and broker {other_id}, which runs, has {theirs}: start it with "
            f"{MIN_ISR}={theirs}, or set it for all brokers while they run (the broker default of the cluster)"
        )
    if other.between is not None and said.endpoints and other.between not in said.endpoints:
        return (
            f"broker {broker_id} has no listener {other.between}, by which broker {other_id} reaches others "
            f"(inter.broker.listener.name); it has {', '.join(said.endpoints)}: name one of them so"
        )
    taken = {tuple(each): name for name, each in other.endpoints.items()}
    for name, endpoint in said.endpoints.items():
        # Where other clients than Kafka's go, in small letters, is for whoever sends them there.
        if tuple(endpoint) in taken and name.isupper():
            host, port = endpoint
            return (
                f"broker {broker_id} says that its listener {name} is reached at {host}:{port}, and so does broker "
                f"{other_id}, which runs: give each an address of its own (advertised.listeners)"
            )
    return None


def decide_registrations(
    image: MetadataImage,
    live: Sequence[LiveBroker],
    broker_settings: Mapping[str, str],
    *,
    own_id: int,
    takes_over: bool,
) -> Decision[Mapping[int, Refusal]]:
    """Bring the brokers of the image in step with the sessions that live; the result is who was refused, and why.

    `own_id` is the controller's broker, `takes_over` whether it has just been elected.
    """
    came, refused = _arrivals(image, live)
    with_session = {broker.broker_id for broker in live}
    is_alone = takes_over and with_session == {own_id}
    gone = [each for each in image.brokers.values() if each.broker_id not in with_session and not each.fenced]
    anew = [each for each in came if not each.is_same_process]
    left = frozenset(each.broker_id for each in gone) | {each.live.broker_id for each in anew}
    changes = PartitionChanges(image, ReplicationRules(image, broker_settings), image.active_brokers() - left)
    if is_alone:
        changes.passes_over = lambda partition: partition.replicas == (own_id,) and partition.leader == own_id
    lines: list[LogLine] = []
    reasons = [f"broker {each.broker_id} is fenced: its session has expired" for each in gone]
    levels = [logging.INFO if each.shutting_down else logging.WARNING for each in gone]  # it said that it stops
    lines += map(LogLine, levels, reasons)
    reasons += [f"broker {each.live.broker_id} was restarted" for each in anew if each.known is not None]
    fence_in(changes, left, "; ".join(reasons))
    for each in anew:
        loss = None if each.known is None else loss_of(each.known, each.said)
        if loss is not None:
            lines.append(LogLine(logging.WARNING, _lose(image, changes, each.live.broker_id, loss)))
    records: list[MetadataRecord] = [
        BrokerChangedRecord(each.broker_id, each.broker_epoch, fenced=True, shutting_down=False) for each in gone
    ]
    for each in came:
        if each.is_same_process and each.known is not None:
            known = each.known
            again = registered(
                each.live, each.said, fenced=known.fenced, shutting_down=known.shutting_down, offline=known.offline
            )
            records.append(again)
        else:
            records.append(registered(each.live, each.said, fenced=not is_alone))
    if is_alone:
        changes.live |= {own_id}
        changes.anew = frozenset(each.live.broker_id for each in anew)
        elect_in(changes, own_id, f"broker {own_id} is back")
        records += [
            BrokerRemovedRecord(broker_id)
            for broker_id in image.brokers
            if broker_id not in with_session and not image.replica_counts.get(broker_id)
        ]
    return Decision((*changes.records(), *records), refused, (*lines, *changes.lines()))


def _arrivals(image: MetadataImage, live: Sequence[LiveBroker]) -> tuple[list[_Came], dict[int, Refusal]]:
    """The sessions that the image does not have, and those of them that are refused."""
    came: list[_Came] = []
    refused: dict[int, Refusal] = {}
    for session in live:
        known = image.brokers.get(session.broker_id)
        if known is not None and known.broker_epoch == session.broker_epoch:
            continue
        try:
            said = decode_registration(session.registration)
        except InvalidInputError as error:
            refused[session.broker_id] = Refusal(session.broker_epoch, str(error))
            continue
        reason = registration_refusal(image, live, session.broker_id, said)
        if reason is not None:
            refused[session.broker_id] = Refusal(session.broker_epoch, reason)
        else:
            came.append(_Came(session, said, known))
    return came, refused


class Loss(NamedTuple):
    """What a broker that was started anew has not any more of what it had."""

    reason: str
    is_empty: bool
    """Whether it has nothing of it, or an old copy: there is nothing to wait for."""
    directory: str | None = None
    """The log directory in which it lay; None for all of them."""


def loss_of(known: BrokerImage, said: BrokerRegistration) -> Loss | None:
    """What a broker that is `known` lost, as its new process registers; None when it has all that matters.

    Its first log directory is a new one when its disk was replaced. One of the others may come back: what lies there
    is offline until then. A stop that was not clean matters where what was acknowledged was not flushed; a process that
    was registered by nobody may lie between, so that what counts is since when nothing was lost.
    """
    if known.directories and known.directories[0] not in said.directories:
        missing = known.directories[0]
        only = missing if len(known.directories) > 1 else None
        return Loss(f"the log directory {missing}, which it had, is not there", is_empty=True, directory=only)
    if 0 <= said.previous_epoch < known.broker_epoch:
        return Loss(
            f"its log directories are those of epoch {said.previous_epoch}, and it has run with epoch "
            f"{known.broker_epoch} since: an old copy",
            is_empty=True,
        )
    if not known.flush and not 0 <= said.clean_since <= known.broker_epoch:
        return Loss("it did not stop cleanly, and acknowledged what was not flushed", is_empty=False)
    return None


def _lose(image: MetadataImage, changes: PartitionChanges, broker_id: int, loss: Loss) -> str:
    reason = f"broker {broker_id}: {loss.reason}"
    where = None
    if loss.directory is not None:
        gone = parse_topic_id(loss.directory)

        def lay_there(topic_id: UUID, index: int) -> bool:
            return image.replica_directory(topic_id, index, broker_id) in (None, gone)

        where = lay_there
    lose_in(changes, broker_id, reason, is_empty=loss.is_empty, where=where)
    return reason
