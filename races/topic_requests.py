"""Requests about topics, of every version: Metadata, CreateTopics, DeleteTopics, CreatePartitions, settings."""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.protocol.messages import create_partitions as cp
from ottla.protocol.messages import create_topics as ct
from ottla.protocol.messages import delete_topics as dt
from ottla.protocol.messages import describe_configs as dc
from ottla.protocol.messages import describe_log_dirs as dld
from ottla.protocol.messages import describe_topic_partitions as dtp
from ottla.protocol.messages import incremental_alter_configs as iac
from ottla.protocol.messages import metadata as md
from races.history import Exchange, Life, Setting, SettingSeen
from races.log_requests import pick_version
from races.raw_connection import Ask
from races.stage import KEPT, LIVING, Stage, answered

TOPIC_RESOURCE = 2
DYNAMIC_TOPIC_CONFIG = 1
"""The source of a setting that the topic has itself."""

MESSAGE_BYTES_MIN = 1_000_000
"""`max.message.bytes` is this and a number that is given out once: its value says which life it belongs to."""

ROLLING = {
    "segment.index.bytes": "1024",
    "index.interval.bytes": "256",
    "file.delete.delay.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
}
"""Segments of little more than a hundred small batches at most."""


COMPACTED = (*LIVING, KEPT[1])
"""Topics that are compacted now and then."""

CHANGES = (
    ("cleanup.policy", ("delete", "compact", "compact,delete")),
    ("segment.ms", ("100", "1000", "604800000")),
    ("index.interval.bytes", ("128", "4096")),
    ("min.insync.replicas", ("1", "2")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime")),
    ("compression.type", ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")),
    ("flush.messages", ("1", "7", "9223372036854775807")),
    ("flush.ms", ("20", "9223372036854775807")),
    ("segment.jitter.ms", ("0", "50")),
    ("preallocate", ("true", "false")),
)


def create_topic(
    stage: Stage, rng: Random, topic: str, life: Life | None, settings: dict[str, str], version: int | None = None
) -> Ask:
    """A topic, whose life is known or not."""
    version = pick_version(ct.CreateTopicsRequest, rng) if version is None else version
    made: list[Setting] = []
    configs = dict(settings)
    if life is not None:
        configs["max.message.bytes"] = str(MESSAGE_BYTES_MIN + stage.next_value())
        made.append(_setting(stage, topic, "max.message.bytes", configs["max.message.bytes"]))
    wanted = ct.CreatableTopic(
        name=topic,
        num_partitions=rng.randint(1, 3) if life is None else life.partition_count,
        replication_factor=1,
        configs=tuple(ct.CreatableTopicConfig(name=name, value=value) for name, value in configs.items()),
    )

    def on_answer(response: Any, exchange: Exchange) -> None:
        (told,) = response.topics
        for setting in made:
            answered(setting, exchange, told.error_code)
        if life is None:
            return
        if told.error_code == 0:
            life.created_at = exchange.answered_at
            if version >= 7:
                life.topic_id = told.topic_id
        else:
            life.deleted_at = exchange.answered_at

    request = ct.CreateTopicsRequest(topics=(wanted,), timeout_ms=30_000)
    return Ask(request, version, on_answer, wait_s=30.0, about=topic)


def delete_topic(stage: Stage, rng: Random, topic: str, life: Life | None) -> Ask:
    """The end of a topic, by name or by id."""
    version = pick_version(dt.DeleteTopicsRequest, rng)
    if life is not None:
        life.delete_asked_at = min(life.delete_asked_at, stage.now())
    if version < 6:
        request = dt.DeleteTopicsRequest(topic_names=(topic,), timeout_ms=30_000)
    elif life is not None and life.topic_id is not None and rng.random() < 0.5:
        request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(topic_id=life.topic_id),), timeout_ms=30_000)
    else:
        request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name=topic),), timeout_ms=30_000)

    def on_answer(response: Any, exchange: Exchange) -> None:
        (told,) = response.responses
        if life is not None and told.error_code == 0:
            life.deleted_at = exchange.answered_at

    return Ask(request, version, on_answer, wait_s=30.0, about=topic)


def create_partitions(stage: Stage, rng: Random, topic: str, count: int) -> Ask:
    """More partitions."""
    request = cp.CreatePartitionsRequest(
        topics=(cp.CreatePartitionsTopic(name=topic, count=count, assignments=None),), timeout_ms=30_000
    )
    return Ask(request, pick_version(cp.CreatePartitionsRequest, rng), wait_s=30.0, about=topic)


def alter_settings(stage: Stage, rng: Random, topic: str) -> Ask:
    """Other settings; one of them with a value that says whose it is."""
    whose = str(MESSAGE_BYTES_MIN + stage.next_value())
    setting = _setting(stage, topic, "max.message.bytes", whose)
    configs = [iac.AlterableConfig(name="max.message.bytes", config_operation=0, value=whose)]
    name, values = rng.choice(CHANGES if topic in COMPACTED else CHANGES[1:])
    value = rng.choice(values)
    if name == "cleanup.policy":
        for each in stage.history.lives:
            each.is_compacted |= each.topic == topic and "compact" in value
    configs.append(iac.AlterableConfig(name=name, config_operation=0, value=value))
    life = stage.lives.get(topic)
    if life is not None and life.takes_records_away:
        kept = rng.choice((("retention.ms", "500"), ("retention.ms", "-1"), ("retention.bytes", "20000")))
        configs.append(iac.AlterableConfig(name=kept[0], config_operation=0, value=kept[1]))
    resource = iac.AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=tuple(configs))

    def on_answer(response: Any, exchange: Exchange) -> None:
        answered(setting, exchange, response.responses[0].error_code)

    request = iac.IncrementalAlterConfigsRequest(resources=(resource,))
    return Ask(request, pick_version(iac.IncrementalAlterConfigsRequest, rng), on_answer, about=topic)


def _setting(stage: Stage, topic: str, name: str, value: str) -> Setting:
    setting = Setting(topic, 0, stage.now(), name=name, value=value)
    stage.history.settings.append(setting)
    return setting


def describe_settings(stage: Stage, rng: Random, topic: str) -> Ask:
    """Which settings a topic has."""
    seen = SettingSeen(topic, 0, stage.now(), name="max.message.bytes")
    stage.history.settings_seen.append(seen)

    def on_answer(response: Any, exchange: Exchange) -> None:
        (told,) = response.results
        answered(seen, exchange, told.error_code)
        for config in told.configs:
            if config.name == seen.name and config.config_source == DYNAMIC_TOPIC_CONFIG:
                seen.value = config.value

    resource = dc.DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
    request = dc.DescribeConfigsRequest(resources=(resource,))
    return Ask(request, pick_version(dc.DescribeConfigsRequest, rng), on_answer, about=topic)


def metadata(stage: Stage, rng: Random, topic: str) -> Ask:
    """One topic, or all."""
    version = pick_version(md.MetadataRequest, rng)
    topics: tuple[md.MetadataRequestTopic, ...] | None
    if rng.random() < 0.2:
        topics = () if version == 0 else None
    elif version >= 12 and rng.random() < 0.5 and (topic_id := stage.topic_id(topic, rng)) is not None:
        topics = (md.MetadataRequestTopic(topic_id=topic_id, name=None),)
    else:
        topics = (md.MetadataRequestTopic(name=topic),)
    # Before version 4 asking is making, where the broker allows it: ours does not.
    request = md.MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)
    return Ask(request, version, about=topic)


def describe_topic(stage: Stage, rng: Random, topic: str) -> Ask:
    """DescribeTopicPartitions."""
    return Ask(dtp.DescribeTopicPartitionsRequest(topics=(dtp.TopicRequest(name=topic),)), 0, about=topic)


def describe_log_dirs(stage: Stage, rng: Random, topic: str) -> Ask:
    """How much of a disk a topic takes."""
    wanted = dld.DescribableLogDirTopic(topic=topic, partitions=(0, 1))
    version = pick_version(dld.DescribeLogDirsRequest, rng)
    return Ask(dld.DescribeLogDirsRequest(topics=(wanted,)), version, about=topic)


def metadata_of(*topics: str) -> Ask:
    """These topics, with their ids."""
    wanted = tuple(md.MetadataRequestTopic(name=topic) for topic in topics)
    return Ask(md.MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12)
