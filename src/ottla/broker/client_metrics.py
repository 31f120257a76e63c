"""Which metrics clients push, how often, and what becomes of a push (KIP-714).

    subscriptions (settings of client-metrics resources) --> what a client that matches is asked for, with an id
    push: of a client that is not silenced, in time, of that id, compressed as agreed, not too large --> the receiver

A client instance is known by an id that the broker made for it when it first asked. What is known of it is of use to it
alone, and forgotten with its connection, after three intervals without a word, and when there are too many.
"""

import re
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from msgspec import Struct

from ottla.metadata.image.image import ConfigResource, ConfigResourceType, MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import TopicPattern, crc32c
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng
from ottla.settings.client_metrics_table import CLIENT_METRICS_SETTINGS, match_of
from ottla.settings.value import parse_list

INSTANCES_MAX: Final = 16_384
"""Client instances that are known at a time (Kafka's value); of more, whoever was silent longest begins anew."""

FORGET_MS_MIN: Final = 60_000
"""For how long a client instance is known after its last request, at least (Kafka's value)."""

INTERVAL_MS_DEFAULT: Final = 300_000
"""How often a client asks again that no subscription matches, and the longest that one does."""

COMPRESSION_TYPES: Final = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: those that are offered, the best first. Uncompressed is allowed besides."""

ATTRIBUTE_CHARACTERS_MAX: Final = 255
"""So much of what a client says of itself is matched and kept: clients choose it."""

_ALL: Final = "*"
_RESERVED: Final = frozenset({UUID(int=0), UUID(int=1)})


class ClientAttributes(NamedTuple):
    """What a client says of itself, and where it comes from."""

    client_id: str = ""
    software_name: str = "unknown"
    software_version: str = "unknown"
    address: str = ""
    port: int = 0

    def selected(self, client_instance_id: UUID) -> dict[str, str]:
        """As the selectors of a subscription name them."""
        return {
            "client_id": self.client_id[:ATTRIBUTE_CHARACTERS_MAX],
            "client_instance_id": kafka_id(client_instance_id),
            "client_software_name": self.software_name[:ATTRIBUTE_CHARACTERS_MAX],
            "client_software_version": self.software_version[:ATTRIBUTE_CHARACTERS_MAX],
            "client_source_address": self.address,
            "client_source_port": str(self.port),
        }


class Push(Struct, frozen=True):
    """The metrics of one client instance, compressed as it sent them."""

    client_instance_id: UUID
    client: ClientAttributes
    compression_type: int
    metrics: bytes
    is_last: bool
    """Whether the client ends with this."""


class Receiver(Protocol):
    """Where accepted pushes go."""

    def receive(self, push: Push) -> None:
        """Take a push. Raises ApiError when it cannot be taken now; the client is told so."""
        ...


class AskedFor(Struct, frozen=True):
    """What one client instance is asked for."""

    subscription_id: int
    metrics: tuple[str, ...]
    """Prefixes of names; `*` alone is all, nothing is none."""
    interval_ms: int


class _Subscription(NamedTuple):
    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[tuple[str, "_Pattern"], ...]

    def matches(self, attributes: Mapping[str, str]) -> bool:
        return all(pattern.matches(attributes[selector]) for selector, pattern in self.match)


class _Instance(Struct):
    asked_for: AskedFor
    version: int
    heard_ms: int
    asked_ms: int | None = None
    pushed_ms: int | None = None
    has_ended: bool = False


class ClientMetricsService:
    """Belongs to the event loop."""

    __slots__ = (
        "_clock",
        "_configs",
        "_image",
        "_instances",
        "_receiver",
        "_rng",
        "_subscriptions",
        "_version",
        "push_bytes_max",
    )

    def __init__(
        self, image: Callable[[], MetadataImage], clock: Clock, rng: Rng, receiver: Receiver, push_bytes_max: int
    ) -> None:
        self._image = image
        self._clock = clock
        self._rng = rng
        self._receiver = receiver
        self.push_bytes_max = push_bytes_max
        """The largest push that is accepted, compressed."""
        self._instances: OrderedDict[UUID, _Instance] = OrderedDict()
        self._configs: object = None
        self._subscriptions: tuple[_Subscription, ...] = ()
        self._version = 0

    def __len__(self) -> int:
        """How many client instances are known."""
        return len(self._instances)

    def ask(self, client_instance_id: UUID, client: ClientAttributes) -> tuple[UUID, AskedFor]:
        """The id of a client instance, made for one that has none (all zeros), and what it is asked for.

        Raises ApiError THROTTLING_QUOTA_EXCEEDED for one that has asked or pushed within its interval.
        """
        if client_instance_id.int == 0:
            client_instance_id = self._rng.uuid()
        instance, now_ms = self._instance(client_instance_id, client)
        last = max((each for each in (instance.asked_ms, instance.pushed_ms) if each is not None), default=None)
        if last is not None and now_ms - last < instance.asked_for.interval_ms:
            raise _too_soon()
        instance.asked_ms = now_ms
        return client_instance_id, instance.asked_for

    def push(self, push: Push, subscription_id: int) -> None:
        """Take the metrics of a client instance.

        Raises ApiError INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID,
        UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE.
        """
        if push.client_instance_id in _RESERVED:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a push needs the id of a client instance")
        instance, now_ms = self._instance(push.client_instance_id, push.client)
        had_ended, instance.has_ended = instance.has_ended, push.is_last
        if had_ended:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the client instance has said that it ends")
        follows = instance.asked_ms is not None and (
            instance.pushed_ms is None or instance.asked_ms > instance.pushed_ms
        )
        is_in_time = (
            follows or instance.pushed_ms is None or now_ms - instance.pushed_ms >= instance.asked_for.interval_ms
        )
        if is_in_time:
            instance.pushed_ms = now_ms
        elif not push.is_last:
            raise _too_soon()
        if subscription_id != instance.asked_for.subscription_id:
            raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "the subscriptions have changed: ask for them again")
        if push.compression_type != 0 and push.compression_type not in COMPRESSION_TYPES:
            message = f"there is no compression type {push.compression_type}"
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
        if len(push.metrics) > self.push_bytes_max:
            raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE, f"a push has at most {self.push_bytes_max} bytes")
        if push.metrics:
            self._receiver.receive(push)

    def forget(self, client_instance_id: UUID) -> None:
        """The connection of a client instance has ended."""
        self._instances.pop(client_instance_id, None)

    def _instance(self, client_instance_id: UUID, client: ClientAttributes) -> tuple[_Instance, int]:
        """What is known of a client instance, nothing of one that is new; and the time."""
        self._read_subscriptions()
        now_ms = self._clock.monotonic_ms()
        instance = self._instances.get(client_instance_id)
        if instance is None or instance.version != self._version or _is_over(instance, now_ms):
            asked_for = self._asked_for(client_instance_id, client)
            instance = self._instances[client_instance_id] = _Instance(asked_for, self._version, now_ms)
        instance.heard_ms = now_ms
        self._instances.move_to_end(client_instance_id)
        while len(self._instances) > INSTANCES_MAX or _is_over(next(iter(self._instances.values())), now_ms):
            self._instances.popitem(last=False)
        return instance, now_ms

    def _read_subscriptions(self) -> None:
        """Take notice of changed settings: every client instance is looked at anew when it comes next."""
        configs = self._image().configs
        if configs is self._configs:
            return
        self._configs = configs
        subscriptions = _subscriptions(configs)
        if subscriptions != self._subscriptions:
            self._subscriptions = subscriptions
            self._version += 1

    def _asked_for(self, client_instance_id: UUID, client: ClientAttributes) -> AskedFor:
        attributes = client.selected(client_instance_id)
        matching = [each for each in self._subscriptions if each.matches(attributes)]
        names = {metric for each in matching for metric in each.metrics}
        metrics = (_ALL,) if _ALL in names else tuple(sorted(names))
        interval_ms = min([INTERVAL_MS_DEFAULT, *(each.interval_ms for each in matching)])
        return AskedFor(_subscription_id(client_instance_id, metrics, interval_ms), metrics, interval_ms)


def kafka_id(each: UUID) -> str:
    """An id as Kafka writes it: URL-safe base64 without padding."""
    return urlsafe_b64encode(each.bytes).rstrip(b"=").decode()


def _is_over(instance: _Instance, now_ms: int) -> bool:
    return now_ms - instance.heard_ms > max(FORGET_MS_MIN, 3 * instance.asked_for.interval_ms)


def _too_soon() -> ApiError:
    return ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the next request is due when the push interval is over")


def _subscription_id(client_instance_id: UUID, metrics: Iterable[str], interval_ms: int) -> int:
    """The same on every broker, so that a client may push to one and have asked another."""
    bits = crc32c(f"{','.join(metrics)};{interval_ms}".encode(), crc32c(client_instance_id.bytes))
    return bits - (1 << 32) if bits >> 31 else bits


def _subscriptions(configs: Mapping[ConfigResource, Mapping[str, str]]) -> tuple[_Subscription, ...]:
    return tuple(
        _Subscription(
            metrics=parse_list(settings.get("metrics", "")),
            interval_ms=int(settings.get("interval.ms", CLIENT_METRICS_SETTINGS["interval.ms"].default or "")),
            match=tuple((selector, _Pattern(each.pattern)) for selector, each in match_of(settings).items()),
        )
        for resource, settings in sorted(configs.items())
        if resource.type == ConfigResourceType.CLIENT_METRICS
    )


class _Pattern:
    """A regular expression that a whole attribute matches, in linear time where the expression allows it."""

    __slots__ = ("_linear", "_pattern")

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        try:
            self._linear: TopicPattern | None = TopicPattern(pattern)
        except ValueError:  # it looks ahead or back
            self._linear = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pattern) and other._pattern == self._pattern

    def __hash__(self) -> int:
        return hash(self._pattern)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        if self._linear is not None:
            return bool(self._linear.matching([text]))
        return re.fullmatch(self._pattern, text) is not None
