"""Asks a broker what it makes of many values of each setting, and writes the answers down.

    python -m tests.conformance.setting_answers 9092 > tests/conformance/facts/kafka_4_3_1_settings.json

A value is set on a topic, on all brokers or on a group by IncrementalAlterConfigs, and DescribeConfigs shows what
became of it; CreateTopics checks the same value for a topic. The file in `facts` holds the answers of Apache Kafka
4.3.1; `tests/unit/settings/test_values_as_kafka.py` holds Ottla's against them. The broker itself says which settings
there are.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from benchmarks.beside_kafka.wire import Wire
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.settings.value import SettingType
from tests.cluster import wait_until

TOPIC, BROKER, GROUP = 2, 4, 32
KNOWN_WITHIN_S = 10
"""How long a broker may take to hear of what was set."""
KINDS = {"topic": (TOPIC, "settings"), "broker": (BROKER, ""), "group": (GROUP, "settings")}
ON_ALL_BROKERS, ON_A_TOPIC, ON_A_GROUP = 3, 1, 8
OWN = {"topic": ON_A_TOPIC, "broker": ON_ALL_BROKERS, "group": ON_A_GROUP}
SET, DELETE = 0, 1
LEFT_OUT = ("ssl.", "sasl.", "listener", "advertised.", "principal.", "metric.")
"""Settings of brokers whose values are about files, classes and addresses."""
NOT_ASKED = frozenset(
    {
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "min.insync.replicas",
        "num.network.threads",
    }
)
"""Settings of brokers that can close the connection that asks, and one that Kafka does not take back."""

ANY = ("", " ", "x", "null")
BOOLEANS = ("true", "false", "TRUE", "False", " true ", " TRUE ", "\tfalse\n", "1", "0", "yes", "on", "t", "true,false")
INTEGERS = (
    *("-9223372036854775809", "-9223372036854775808", "-2147483649", "-2147483648", "-131073", "-131072"),
    *("-3", "-2", "-1", "-0", "0", "1", "2", "3", "4", "5", "9", "10", "14", "16", "17", "18", "22", "23"),
    *("100", "1000", "1023", "1024", "32767", "32768", "65536", "1048575", "1048576", "2147483647", "2147483648"),
    *("9223372036854775807", "9223372036854775808", "99999999999999999999"),
    *("+5", " 5 ", "\t5\n", "005", "+-5", "--5", "+", "-", "5.0", "1e3", "0x10", "5L", "5 5", "1_000", "5,6"),
    *("\u0665", "\uff15", "\u00b2", "+1048576", " 1048576 ", "0001048576", "\u00a05", "5\u2003"),
)
DOUBLES = (
    *("0", "1", "0.5", " 0.5 ", "+0.5", ".5", "0.", "1.", "5e-1", "5E-1", "5e-01", "0.5d", "0.5D", "0.5f", "0.5F"),
    *("1d", "0x1p-1", "0X1.8P-1", "0x1p0", "0x1p-1d", "0x.8", "0.5dd", "d", "NaN", "Infinity", "-Infinity", "inf"),
    *("nan", "-0.0", "-0", "-1", "-0.1", "1.0000001", "2", "10", "1e400", "1e-400", "1,5", "0,5", "0.50", "1E0", "1e7"),
    *(
        "9999999",
        "10000000",
        "12345678.9",
        "0.001",
        "0.0001",
        "0.00012",
        "1_0",
        "0.1 ",
        "0.30000000000000004",
        "\u0665",
    ),
    *("5.", "100", "1048576", "3.4e38", "1.7976931348623157E308", "1.7976931348623157e308", "+NaN", "0.5l", "0x10"),
)
POLICIES = (
    *(
        "compact",
        "delete",
        "compact,delete",
        "delete,compact",
        " compact , delete ",
        "compact,compact",
        "delete,delete",
    ),
    *("compact,delete,compact", "Compact", "DELETE", "compact,", ",compact", "compact,,delete", ",", " , ", "none"),
    *("compact delete", "compact;delete", "[compact]", "compact,none", "compact\t,\ndelete"),
)
REPLICAS = (
    *(
        "*",
        "0:1",
        "0:1,1:2",
        " 0:1 , 1:2 ",
        "*,0:1",
        "0:1,*",
        "*,*",
        "0:1,0:1",
        "0",
        "0:",
        ":1",
        "0:1:2",
        "a:b",
        "0: 1",
    ),
    *("0 :1", "-1:1", "0:-1", "+0:1", "00:01", "0:1,", ",0:1", "0:1,,1:2", "2147483648:1", "0:2147483648", "none"),
    *("\u0665:1", " * ", "**", "0:*"),
)
WORDS = {
    "compression.type": (
        *("producer", "gzip", "snappy", "lz4", "zstd", "uncompressed", "none", "GZIP", "Zstd", " gzip ", "gzip,zstd"),
    ),
    "message.timestamp.type": (
        *("CreateTime", "LogAppendTime", "createtime", "LOGAPPENDTIME", " CreateTime ", "NoTimestampType", "Create"),
    ),
    "isolation": ("read_committed", "read_uncommitted"),
    "offset.reset": (
        *("earliest", "latest", "none", "Latest", "EARLIEST", " latest ", "by_duration:PT1H", "by_duration:P1D"),
        *("by_duration:", "by_duration:-PT1H", "by_duration:x", "by_duration:pt1h", "BY_DURATION:PT1H"),
    ),
}
NUMBERS = frozenset({SettingType.INT, SettingType.SHORT, SettingType.LONG})


def values_of(name: str, kind: int) -> tuple[str, ...]:
    """What is asked about a setting of this type."""
    if kind == SettingType.BOOLEAN:
        return (*ANY, *BOOLEANS)
    if kind in NUMBERS:
        return (*ANY, *INTEGERS)
    if kind == SettingType.DOUBLE:
        return (*ANY, *DOUBLES)
    if kind == SettingType.LIST:
        return (*ANY, *(REPLICAS if name.endswith("throttled.replicas") else POLICIES))
    return (*ANY, *next((words for ending, words in WORDS.items() if name.endswith(ending)), ()))


@dataclass(frozen=True)
class Answer:
    """What became of one value."""

    code: int
    shown: str | None
    """None for one that is refused."""
    created: int | None
    """What CreateTopics answers, for a setting of a topic."""
    message: str | None


class Asked:
    """One broker."""

    def __init__(self, port: int) -> None:
        self._wire = Wire.connect(port)

    def settings(self, kind: str) -> list[DescribeConfigsResourceResult]:
        """Those that can be set while brokers run."""
        number, name = KINDS[kind]
        described = self._describe(number, name or "1", None)
        return [
            each
            for each in described
            if not each.read_only
            and (kind != "broker" or not (each.name.startswith(LEFT_OUT) or each.name in NOT_ASKED))
        ]

    def create_topic(self) -> None:
        """The topic whose settings are set, once the broker has heard of it."""
        number, name = KINDS["topic"]
        self._create(name, (), validate_only=False)
        request = DescribeConfigsRequest(resources=(DescribeConfigsResource(number, name, ()),))

        def is_known() -> bool:
            response = self._wire.ask(request, 4)
            assert isinstance(response, DescribeConfigsResponse)
            return not response.results[0].error_code

        wait_until(is_known, f"topic {name}", KNOWN_WITHIN_S)

    def answer(self, kind: str, name: str, value: str | None) -> Answer:
        """Set a value, see what is shown, and take it back."""
        created = None
        if kind == "topic":
            created, _ = self._create("checked", (CreatableTopicConfig(name, value),), validate_only=True)
        code, message = self._alter(kind, name, SET, value)
        if code:
            return Answer(code, None, created, message)
        shown = self._shown(kind, name, wanted=True)
        undone, why = self._alter(kind, name, DELETE, None)
        assert undone == 0, (name, value, why)
        self._shown(kind, name, wanted=False)
        return Answer(0, shown, created, message)

    def _shown(self, kind: str, name: str, *, wanted: bool) -> str | None:
        """The value, once the broker has heard that it is set, or is no longer."""
        number, resource = KINDS[kind]

        def look() -> tuple[str | None] | None:
            found = [each for each in self._describe(number, resource, (name,)) if each.config_source == OWN[kind]]
            return (found[0].value if found else None,) if bool(found) == wanted else None

        [value] = wait_until(look, f"{kind} setting {name}", KNOWN_WITHIN_S)
        return value

    def _describe(
        self, number: int, resource: str, names: tuple[str, ...] | None
    ) -> tuple[DescribeConfigsResourceResult, ...]:
        response = self._wire.ask(
            DescribeConfigsRequest(resources=(DescribeConfigsResource(number, resource, names),)), 4
        )
        assert isinstance(response, DescribeConfigsResponse)
        assert response.results[0].error_code == 0, response.results[0].error_message
        return response.results[0].configs

    def _alter(self, kind: str, name: str, operation: int, value: str | None) -> tuple[int, str | None]:
        number, resource = KINDS[kind]
        change = AlterConfigsResource(number, resource, (AlterableConfig(name, operation, value),))
        response = self._wire.ask(IncrementalAlterConfigsRequest(resources=(change,)), 1)
        assert isinstance(response, IncrementalAlterConfigsResponse)
        return response.responses[0].error_code, response.responses[0].error_message

    def _create(
        self, topic: str, configs: tuple[CreatableTopicConfig, ...], *, validate_only: bool
    ) -> tuple[int, str | None]:
        request = CreateTopicsRequest(
            topics=(CreatableTopic(topic, 1, 1, configs=configs),), validate_only=validate_only
        )
        response = self._wire.ask(request, 7)
        assert isinstance(response, CreateTopicsResponse)
        return response.topics[0].error_code, response.topics[0].error_message


def main() -> None:
    """Ask the broker of this port of this machine. With a second argument, its messages too."""
    asked = Asked(int(sys.argv[1]))
    with_messages = len(sys.argv) > 2
    asked.create_topic()
    lines = []
    for kind in KINDS:
        for setting in asked.settings(kind):
            answers: dict[str, object] = {}
            for value in dict.fromkeys(values_of(setting.name, setting.config_type)):
                answer = asked.answer(kind, setting.name, value)
                said: list[object] = [answer.code, answer.shown]
                if kind == "topic":
                    said.append(answer.created)
                if with_messages:
                    said.append(answer.message)
                answers[value] = said
            row = {"kind": kind, "name": setting.name, "type": setting.config_type, "answers": answers}
            lines.append(json.dumps(row, separators=(",", ":")))
            print(kind, setting.name, len(answers), file=sys.stderr)
    print("[\n" + ",\n".join(lines) + "\n]")


if __name__ == "__main__":
    main()
