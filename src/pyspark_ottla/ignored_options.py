"""Options of Spark's Kafka source and of Kafka's clients that have no effect here.

A notebook migrates by a change of the format's name. Its other options are named once, with the reason, and ignored.
The names are those of Spark's connector 4.2 and of the consumer, producer and admin client of Kafka 4.3.
"""

_NO_MEMBER = (
    "reading joins no consumer group, Spark plans what each task reads; groupId shows the progress as a group's"
)
_PLAN = "Spark's checkpoint says where reading goes on; set startingOffsets"
_CONNECTION = "this client decides it by itself"
_BYTES = "key and value are bytes; cast or decode the columns"
_PRODUCER = "this client decides by itself how it batches and repeats"

_REASONS: dict[str, tuple[str, ...]] = {
    _NO_MEMBER: (
        "groupIdPrefix",
        "kafka.group.id",
        "kafka.group.instance.id",
        "kafka.group.protocol",
        "kafka.group.remote.assignor",
        "kafka.heartbeat.interval.ms",
        "kafka.max.poll.interval.ms",
        "kafka.partition.assignment.strategy",
        "kafka.session.timeout.ms",
        "kafka.share.acknowledgement.mode",
        "kafka.share.acquire.mode",
    ),
    _PLAN: ("kafka.auto.offset.reset", "kafka.enable.auto.commit", "kafka.auto.commit.interval.ms"),
    "offsets are asked for until kafka.default.api.timeout.ms has passed": ("fetchOffset.numRetries",),
    "set kafka.retry.backoff.ms": ("fetchOffset.retryIntervalMs",),
    "set kafka.request.timeout.ms": ("kafkaConsumer.pollTimeoutMs",),
    "set maxBatchRows": ("kafka.max.poll.records",),
    "name topics with subscribe, subscribePattern, assign or topic": ("path",),
    "topics are not created by reading or writing": ("kafka.allow.auto.create.topics",),
    "internal topics are read when they are named, and left out of a pattern": ("kafka.exclude.internal.topics",),
    "every batch is checked by the broker that took it": ("kafka.check.crcs",),
    "an answer comes as soon as there is one record": ("kafka.fetch.min.bytes",),
    _BYTES: (
        "kafka.key.deserializer",
        "kafka.value.deserializer",
        "kafka.key.serializer",
        "kafka.value.serializer",
    ),
    "interceptors, partitioners and reporters are Java classes": (
        "kafka.interceptor.classes",
        "kafka.metric.reporters",
        "kafka.partitioner.class",
        "kafka.security.providers",
    ),
    "Spark shows the progress of a query": (
        "kafka.enable.metrics.push",
        "kafka.metrics.num.samples",
        "kafka.metrics.recording.level",
        "kafka.metrics.sample.window.ms",
    ),
    _CONNECTION: (
        "kafka.client.dns.lookup",
        "kafka.connections.max.idle.ms",
        "kafka.metadata.max.idle.ms",
        "kafka.metadata.recovery.rebootstrap.trigger.ms",
        "kafka.metadata.recovery.strategy",
        "kafka.receive.buffer.bytes",
        "kafka.reconnect.backoff.max.ms",
        "kafka.reconnect.backoff.ms",
        "kafka.send.buffer.bytes",
        "kafka.socket.connection.setup.timeout.max.ms",
    ),
    _PRODUCER: (
        "kafka.buffer.memory",
        "kafka.compression.gzip.level",
        "kafka.compression.lz4.level",
        "kafka.compression.zstd.level",
        "kafka.delivery.timeout.ms",
        "kafka.enable.idempotence",
        "kafka.linger.ms",
        "kafka.max.block.ms",
        "kafka.max.in.flight.requests.per.connection",
        "kafka.max.request.size",
        "kafka.partitioner.adaptive.partitioning.enable",
        "kafka.partitioner.availability.timeout.ms",
        "kafka.partitioner.ignore.keys",
        "kafka.retries",
    ),
    "set transactionalId and mode, which say what a whole micro-batch does": (
        "kafka.transaction.timeout.ms",
        "kafka.transaction.two.phase.commit.enable",
        "kafka.transactional.id",
    ),
    "it is for reading": (
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "failOnDataLoss",
        "includeHeaders",
        "minPartitions",
        "maxRecordsPerPartition",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "kafka.client.rack",
        "kafka.fetch.max.bytes",
        "kafka.fetch.max.wait.ms",
        "kafka.isolation.level",
        "kafka.max.partition.fetch.bytes",
    ),
    "it is for writing": ("topic", "kafka.acks", "kafka.batch.size", "kafka.compression.type"),
}

IGNORED = {name.lower(): (name, reason) for reason, names in _REASONS.items() for name in names}
"""By name in lower case: the usual spelling, and why the option has no effect."""

_ENCRYPTED = ("kafka.ssl.", "kafka.sasl.")


def reason_to_ignore(key: str) -> str | None:
    """Why an option is ignored; None for a name that is not known."""
    key = key.lower()
    if key in IGNORED:
        return IGNORED[key][1]
    return "it is of Java's TLS and SASL" if key.startswith(_ENCRYPTED) else None
