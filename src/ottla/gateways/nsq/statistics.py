"""The statistics that nsqd has of its topics, channels and clients, as documents of its HTTP API.

A broker tells of the topics that it leads or its clients read; the depth is at the leader. A message of DPUB that
waits in the delay topic counts as deferred for each channel. Numbers that nsqd counts from its start are counted here
from the first time that the broker served the channel; what counts messages of a topic counts those in its log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ottla.gateways.nsq.command_reader import ConnectionState
from ottla.gateways.nsq.identify import VERSION
from ottla.gateways.nsq.names import topic_of
from ottla.gateways.nsq.paused import TOPIC, paused_names
from ottla.gateways.nsq.tls_names import cipher_suite_name, version_name
from ottla.model.principal import ANONYMOUS, Principal
from ottla.runtime.turns import Pace, next_turn

if TYPE_CHECKING:
    from ottla.gateways.nsq.connection import NsqConnection
    from ottla.gateways.nsq.gateway import NsqGateway
    from ottla.metadata.image.image import TopicImage

ITEMS_PER_TURN: Final = 20
"""Topics, channels and clients that are told of in one turn of the event loop: a millisecond."""
NO_LATENCIES: Final = {"count": 0, "percentiles": None}
Document = dict[str, Any]


class _Asked(Struct, frozen=True):
    """What is asked for, by whom, and the clients there are meanwhile."""

    channel: str
    with_clients: bool
    principal: Principal
    clients: dict[tuple[str, str], list[NsqConnection]]
    """By topic and channel."""
    pace: Pace


class NsqStatistics:
    """Belongs to the event loop."""

    def __init__(self, gateway: NsqGateway) -> None:
        self._gateway = gateway

    async def topics(
        self, topic: str = "", channel: str = "", *, with_clients: bool = True, principal: Principal = ANONYMOUS
    ) -> list[Document]:
        """Topics by their names, or one of them, with their channels, or one of them, as far as the principal may know.
        Raises ApiError.
        """
        clients: dict[tuple[str, str], list[NsqConnection]] = {}
        for each in self._gateway.connections:
            if each.subscription is not None:
                clients.setdefault(each.subscription, []).append(each)
        asked = _Asked(channel, with_clients, principal, clients, Pace(ITEMS_PER_TURN))
        read = {name for name, _ in clients}
        known = self._gateway.administration.topics(principal)
        found = sorted((each for each in known if topic in ("", each[0])), key=lambda each: each[0])
        return [await self._topic(name, image, asked) for name, image in found if self._leads(image) or name in read]

    def producers(self) -> list[Document]:
        """The clients that have published."""
        may_describe = self._gateway.administration.may_describe
        found = []
        for each in self._gateway.connections:
            counts = [
                {"topic": topic, "count": count}
                for topic, count in each.published.items()
                if may_describe(topic_of(topic))
            ]
            if counts:
                found.append(_client(each) | {"pub_counts": counts})
        return found

    def _leads(self, topic: TopicImage) -> bool:
        return any(partition.leader == self._gateway.broker.config.node_id for partition in topic.partitions)

    async def _topic(self, name: str, topic: TopicImage, asked: _Asked) -> Document:
        broker = self._gateway.broker
        names = await self._gateway.administration.channels(topic, asked.principal)
        paused = paused_names(broker.image, topic.name)
        led = [
            partition
            for number in range(len(topic.partitions))
            if (partition := broker.replicas.find(topic.name, number)) is not None and partition.is_leader
        ]
        later = sum(broker.delayed.waiting_count(each.topic_partition) for each in led)
        waiting = later + sum(each.high_watermark - each.log.log_start_offset for each in led)
        if asked.pace.is_enough():
            await next_turn()
        channels = [
            await self._channel(name, topic, each, later, paused, asked)
            for each in names
            if asked.channel in ("", each)
        ]
        return {
            "topic_name": name,
            "channels": channels,
            "depth": 0 if names else waiting,
            "backend_depth": 0 if names else waiting,
            "message_count": later + sum(each.high_watermark for each in led),
            "message_bytes": sum(each.log.size for each in led),
            "paused": TOPIC in paused,
            "e2e_processing_latency": NO_LATENCIES,
        }

    async def _channel(
        self, topic_name: str, topic: TopicImage, channel: str, later: int, paused: frozenset[str], asked: _Asked
    ) -> Document:
        gateway = self._gateway
        if asked.pace.is_enough():
            await next_turn()
        clients = asked.clients.get((topic_name, channel), [])
        standing = await gateway.channels.standing(asked.principal, topic, channel)
        counts = gateway.counts_of(topic_name, channel, clients)
        told = []
        for client in clients if asked.with_clients else ():
            if asked.pace.is_enough():
                await next_turn()
            told.append(_client(client))
        return {
            "channel_name": channel,
            "depth": standing.depth,
            "backend_depth": standing.depth,
            "in_flight_count": standing.in_flight,
            "deferred_count": standing.deferred + later,
            "message_count": standing.message_count + later,
            "requeue_count": counts.requeue_count,
            "timeout_count": counts.timeout_count,
            "client_count": len(clients),
            "clients": told,
            "paused": channel in paused,
            "e2e_processing_latency": NO_LATENCIES,
        }


def _client(connection: NsqConnection) -> Document:
    options, reader, tls = connection.options, connection.reader, connection.tls
    return {
        "client_id": options.client_id,
        "hostname": options.hostname,
        "version": "V2",
        "remote_address": str(connection.connection.peer),
        "state": connection.state,
        "ready_count": connection.ready_count if connection.state == ConnectionState.SUBSCRIBED else 0,
        "in_flight_count": 0 if reader is None else reader.in_flight_count,
        "message_count": 0 if reader is None else reader.counts.message_count,
        "finish_count": 0 if reader is None else reader.counts.finish_count,
        "requeue_count": 0 if reader is None else reader.counts.requeue_count,
        "connect_ts": connection.connected_ms // 1000,
        "sample_rate": options.sample_rate,
        "deflate": options.deflate,
        "snappy": options.snappy,
        "user_agent": options.user_agent,
        "tls": tls is not None,
        "tls_cipher_suite": "" if tls is None else cipher_suite_name(tls.cipher),
        "tls_version": "" if tls is None else version_name(tls.version),
        "tls_negotiated_protocol": "",
        "tls_negotiated_protocol_is_mutual": False,
    } | _auth_of(connection)


def _auth_of(connection: NsqConnection) -> Document:
    """What its AUTH gave it; nothing that is empty, as with nsqd."""
    found = None if connection.auth is None else connection.auth.authorizations
    if found is None:
        return {}
    named = {"auth_identity": found.identity, "auth_identity_url": found.identity_url}
    return {"authed": True} | {name: value for name, value in named.items() if value}


def as_text(head: Iterable[str], topics: list[Document], producers: list[Document], now_s: int) -> str:
    """The statistics for people, in nsqd's form."""
    lines = list(head)
    lines.append("\nTopics:" if topics else "\nTopics: None")
    for topic in topics:
        mark = "*P " if topic["paused"] else "   "
        lines.append(
            f"{mark}[{topic['topic_name']:<15}] depth: {topic['depth']:<5} be-depth: {topic['backend_depth']:<5} "
            f"msgs: {topic['message_count']:<8} e2e%: "
        )
        for channel in topic["channels"]:
            mark = "   *P " if channel["paused"] else "      "
            lines.append(
                f"{mark}[{channel['channel_name']:<25}] depth: {channel['depth']:<5} "
                f"be-depth: {channel['backend_depth']:<5} inflt: {channel['in_flight_count']:<4} "
                f"def: {channel['deferred_count']:<4} re-q: {channel['requeue_count']:<5} "
                f"timeout: {channel['timeout_count']:<5} msgs: {channel['message_count']:<8} e2e%: "
            )
            lines += [_client_line(client, now_s) for client in channel["clients"]]
        lines.append("")
    lines.append("\nProducers:" if producers else "\nProducers: None")
    for client in producers:
        counts = " ".join(f"{each['topic']}: {each['count']}" for each in client["pub_counts"])
        lines.append(f"   [{client['version']} {client['client_id']:<21}] {counts}")
    return "\n".join(lines) + "\n"


def _client_line(client: Document, now_s: int) -> str:
    name = f"{client['version']} {client['client_id']}"
    return (
        f"        [{name:<24}] state: {client['state']:<3} inflt: {client['in_flight_count']:<4} "
        f"rdy: {client['ready_count']:<4} fin: {client['finish_count']:<8} re-q: {client['requeue_count']:<8} "
        f"msgs: {client['message_count']:<8} connected: {now_s - client['connect_ts']}s"
    )


def head_lines(started_s: int, now_s: int, health: str) -> list[str]:
    """What stands above the topics."""
    return [
        f"nsqd v{VERSION} (served by ottla)",
        f"start_time {started_s}",
        f"uptime {now_s - started_s}s",
        "",
        f"Health: {health}",
    ]
