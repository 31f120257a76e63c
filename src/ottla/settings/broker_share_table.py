"""The broker settings of the share coordinator and its topic (KIP-932)."""

from typing import Final

from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.definition import Importance
from ottla.settings.validators import Range
from ottla.settings.value import SettingType

_INT, _SHORT = SettingType.INT, SettingType.SHORT
_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM

SHARE_SETTINGS: Final = (
    _setting(
        "errors.deadletterqueue.auto.create.topics.enable",
        SettingType.BOOLEAN,
        "false",
        None,
        _MEDIUM,
        "Whether the dead letter topic of a share group is created when it is first needed (KIP-1191).",
    ),
    _setting(
        "share.coordinator.load.buffer.size",
        _INT,
        "5242880",
        Range(1),
        _HIGH,
        "The number of bytes read at a time from the share state topic while states are loaded.",
    ),
    _setting(
        "share.coordinator.state.topic.min.isr",
        _SHORT,
        "2",
        Range(1),
        _HIGH,
        "The min.insync.replicas of the share state topic.",
    ),
    _setting(
        "share.coordinator.state.topic.num.partitions",
        _INT,
        "50",
        Range(1, 10_000),
        _HIGH,
        "The number of partitions of the share state topic. Do not change it once the topic exists.",
    ),
    _setting(
        "share.coordinator.state.topic.replication.factor",
        _SHORT,
        "3",
        Range(1),
        _HIGH,
        "The replication factor of the share state topic: fewer while there are fewer brokers, more as brokers join.",
    ),
    _setting(
        "share.coordinator.state.topic.segment.bytes",
        _INT,
        "104857600",
        Range(1),
        _MEDIUM,
        "The segment size of the share state topic.",
    ),
)
