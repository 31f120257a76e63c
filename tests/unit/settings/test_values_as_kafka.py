"""Thousands of values of settings, each taken or refused, and shown, as Apache Kafka 4.3.1 does.

The answers of Kafka are in `tests/conformance/facts`; `tests/conformance/setting_answers.py` asks for them.
"""

import json
from pathlib import Path

import pytest

from ottla.metadata.controller.config_alteration import (
    Alteration,
    AlterOperation,
    ResourceAlteration,
    decide_config_alteration,
)
from ottla.metadata.controller.topic_config import validated_topic_config
from ottla.metadata.image.image import ALL_BROKERS, ConfigResource, ConfigResourceType, topic_resource
from ottla.metadata.records import ConfigRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.settings.broker_table import BROKER_SETTINGS
from ottla.settings.definition import InvalidSettingError, UpdateMode
from ottla.settings.value import format_value
from tests.unit.metadata.images import image_of, topic_record

FACTS = json.loads((Path(__file__).parents[2] / "conformance" / "facts" / "kafka_4_3_1_settings.json").read_text())
ROWS = {(row["kind"], row["name"]): row for row in FACTS}
RESOURCES = {
    "topic": topic_resource("a"),
    "broker": ALL_BROKERS,
    "group": ConfigResource(ConfigResourceType.GROUP, "g"),
}
IMAGE = image_of(topic_record("a", 1))

REFUSED_HERE = {
    ("topic", "min.cleanable.dirty.ratio"): {"NaN", "+NaN"},
    ("broker", "log.cleaner.min.cleanable.ratio"): {"NaN", "+NaN"},
    ("broker", "log.flush.interval.ms"): {
        *("-1", "-2", "-3", "-131072", "-131073", "-2147483648", "-2147483649", "-9223372036854775808"),
    },
}
"""What Kafka takes though it means nothing: a share that is no number, a time below 0. `cleaner_rate_has_no_meaning`
is such a kind, too."""

TAKEN_HERE = {
    ("broker", "log.cleaner.dedupe.buffer.size"): {
        *("1024", "32767", "32768", "65536", "1048575", "1048576", "+1048576", " 1048576 ", "0001048576"),
    },
    ("broker", "log.cleaner.threads"): {
        *("-0", "0", "3", "4", "5", "9", "10", "14", "16", "+5", " 5 ", "\t5\n", "005", "\u0665", "\uff15"),
    },
}
"""What Kafka refuses though it works here: less than a MiB for a table of keys, more than twice as many threads at a
time, and none."""


def cleaner_rate_has_no_meaning(name: str, value: str) -> bool:
    """Whether it is less than a byte a second, no number or endless, which Kafka takes."""
    if name != "log.cleaner.io.max.bytes.per.second" or ROWS["broker", name]["answers"][value][0]:
        return False
    text = value.strip().lower().rstrip("fd")
    return not 1 <= (float.fromhex(text) if "0x" in text else float(text)) < float("inf")


def answered(kind: str, name: str, value: str) -> tuple[int, str | None]:
    """The code, and the value that is shown."""
    resource = RESOURCES[kind]
    request = ResourceAlteration(resource, [Alteration(name, AlterOperation.SET, value)])
    decision = decide_config_alteration(IMAGE, [request], {})
    outcome = decision.result[resource]
    if isinstance(outcome, ApiError):
        return outcome.code, None
    [record] = decision.records
    assert isinstance(record, ConfigRecord)
    return 0, record.value


def created(name: str, value: str) -> int:
    try:
        validated_topic_config({name: value})
    except InvalidSettingError as error:
        return error.code
    return 0


@pytest.mark.parametrize("name", [name for kind, name in ROWS if kind == "topic"])
def test_values_of_topics_are_taken_refused_and_shown_as_kafka_does(name):
    for value, answer in ROWS["topic", name]["answers"].items():
        if value in REFUSED_HERE.get(("topic", name), ()):
            answer = [ErrorCode.INVALID_CONFIG, None, ErrorCode.INVALID_CONFIG]
        assert (*answered("topic", name, value), created(name, value)) == tuple(answer), (name, value)


@pytest.mark.parametrize("name", [name for kind, name in ROWS if kind == "group"])
def test_values_of_groups_are_taken_refused_and_shown_as_kafka_does(name):
    for value, answer in ROWS["group", name]["answers"].items():
        assert answered("group", name, value) == tuple(answer), (name, value)


def is_dynamic(name: str) -> bool:
    return name in BROKER_SETTINGS and BROKER_SETTINGS[name].update_mode != UpdateMode.READ_ONLY


@pytest.mark.parametrize("name", [name for kind, name in ROWS if kind == "broker" and is_dynamic(name)])
def test_values_of_brokers_are_taken_or_refused_as_kafka_does(name):
    """They are shown as those of topics are, where Kafka shows what was written."""
    for value, (kafkas_code, written) in ROWS["broker", name]["answers"].items():
        code, shown = answered("broker", name, value)
        if value in REFUSED_HERE.get(("broker", name), ()) or cleaner_rate_has_no_meaning(name, value):
            assert (kafkas_code, code) == (0, ErrorCode.INVALID_CONFIG), (name, value)
        elif value in TAKEN_HERE.get(("broker", name), ()):
            assert (kafkas_code, code) == (ErrorCode.INVALID_REQUEST, 0), (name, value)
        else:
            assert (code == 0) == (kafkas_code == 0), (name, value)
        if code == 0 and kafkas_code == 0:
            assert written is not None
            assert shown == format_value(BROKER_SETTINGS[name].parse(written)), (name, value)


def test_what_only_kafkas_brokers_can_change_while_they_run_is_refused():
    """Settings of its threads, buffers and tiered storage."""
    names = [name for kind, name in ROWS if kind == "broker" and not is_dynamic(name)]
    assert names
    for name in names:
        assert answered("broker", name, "5")[0] == ErrorCode.INVALID_CONFIG, name


def test_fractions_are_shown_as_java_writes_them():
    answers = ROWS["topic", "min.cleanable.dirty.ratio"]["answers"]
    shown = {text for code, text, _ in answers.values() if code == 0}
    assert {"0.0", "-0.0", "1.0", "1.2E-4", "0.30000000000000004"} <= shown
    values = (1e7, 9999999.0, 12345678.9, 1e-3, -1.5e-7)
    assert [format_value(value) for value in values] == ["1.0E7", "9999999.0", "1.23456789E7", "0.001", "-1.5E-7"]
