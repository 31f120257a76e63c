"""What an NSQ client may ask for; the defaults are nsqd's."""

from typing import Self

from msgspec import Struct

from ottla.gateways.nsq.statsd import StatsdOptions
from ottla.settings.broker_settings import BrokerSettings


class NsqLimits(Struct, frozen=True):
    """Sizes in bytes, times in milliseconds."""

    message_bytes_max: int = 1024 * 1024
    body_bytes_max: int = 5 * 1024 * 1024
    ready_count_max: int = 2_500
    message_timeout_ms: int = 60_000
    message_timeout_max_ms: int = 900_000
    requeue_delay_max_ms: int = 3_600_000
    heartbeat_interval_ms: int = 30_000
    heartbeat_interval_max_ms: int = 60_000
    output_buffer_bytes: int = 16 * 1024
    output_buffer_bytes_max: int = 64 * 1024
    output_buffer_timeout_ms: int = 250
    output_buffer_timeout_min_ms: int = 25
    output_buffer_timeout_max_ms: int = 30_000
    deflate_level_max: int = 6
    is_deflate_enabled: bool = True
    is_snappy_enabled: bool = True
    tls_cert: str = ""
    """A file with the certificate, in PEM; empty for no TLS."""
    tls_key: str = ""
    tls_root_ca: str = ""
    tls_client_auth: str = ""
    is_tls_required: bool = False
    is_http_open: bool = True
    """Whether the HTTP API is served without TLS."""
    auth_servers: tuple[str, ...] = ()
    """Where it is asked what clients may do, each as host:port or URL; empty for no AUTH."""
    broadcast_address: str = ""
    """The host that lookup services send clients to; empty for the name of this host."""
    lookupd_addresses: tuple[str, ...] = ()

    statsd: StatsdOptions = StatsdOptions()

    @classmethod
    def from_settings(cls, settings: BrokerSettings) -> Self:
        """What the settings of a broker say. As in nsqd, TLS is required where clients have to show certificates."""
        required = settings.text("nsq.tls.required") or "false"
        client_auth = settings.text("nsq.tls.client.auth.policy") or ""
        return cls(
            message_bytes_max=settings.integer("nsq.max.msg.size"),
            body_bytes_max=settings.integer("nsq.max.body.size"),
            ready_count_max=settings.integer("nsq.max.rdy.count"),
            message_timeout_ms=settings.integer("nsq.msg.timeout.ms"),
            message_timeout_max_ms=settings.integer("nsq.max.msg.timeout.ms"),
            requeue_delay_max_ms=settings.integer("nsq.max.req.timeout.ms"),
            heartbeat_interval_max_ms=settings.integer("nsq.max.heartbeat.interval.ms"),
            tls_cert=settings.text("nsq.tls.cert") or "",
            tls_key=settings.text("nsq.tls.key") or "",
            tls_root_ca=settings.text("nsq.tls.root.ca.file") or "",
            tls_client_auth=client_auth,
            is_tls_required=required != "false" or bool(client_auth),
            is_http_open=not (required == "true" or (client_auth and required == "false")),
            auth_servers=tuple(settings.texts("nsq.auth.http.addresses")),
            broadcast_address=settings.text("nsq.broadcast.address") or "",
            lookupd_addresses=tuple(settings.texts("nsq.lookupd.tcp.addresses")),
            statsd=StatsdOptions(
                address=settings.text("nsq.statsd.address") or "",
                prefix=settings.text("nsq.statsd.prefix") or "",
                interval_ms=settings.integer("nsq.statsd.interval.ms"),
                packet_bytes=settings.integer("nsq.statsd.udp.packet.size"),
                excludes_ephemeral=settings.boolean("nsq.statsd.exclude.ephemeral"),
            ),
        )

    @property
    def messages_max(self) -> int:
        """So many messages fit into one MPUB: a count, and at least five bytes for each."""
        return (self.body_bytes_max - 4) // 5
