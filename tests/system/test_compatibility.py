"""docs/compatibility.md is what a running broker says of itself, beside what Apache Kafka 4.3.1 said of itself."""

import json
import re
import socket
import struct
from pathlib import Path

from ottla.protocol.api_keys import APIS, ApiKey
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parent.parent.parent
ROW = re.compile(r"\| (?P<key>\d+) \| (?P<name>\w+) \| (?P<kafka>\d+-\d+) \| (?P<served>\d+-\d+|no) \| (?P<why>.*) \|")
BETWEEN_BROKERS = range(83, 88)
TELEMETRY = {int(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS), int(ApiKey.PUSH_TELEMETRY)}
VERSION = 4

Versions = dict[int, tuple[int, int]]


def documented() -> dict[int, re.Match[str]]:
    rows = (ROOT / "docs" / "compatibility.md").read_text().splitlines()
    return {int(match["key"]): match for row in rows if (match := ROW.fullmatch(row))}


def versions(text: str) -> tuple[int, int]:
    low, high = text.split("-")
    return int(low), int(high)


def advertised(broker: BrokerProcess) -> Versions:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    with socket.create_connection(("127.0.0.1", broker.port), timeout=60) as connection:
        connection.sendall(encode_request(1, "test", request, VERSION))
        stream = connection.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        _, response = decode_response(ApiKey.API_VERSIONS, VERSION, stream.read(size))
    assert isinstance(response, ApiVersionsResponse)
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


def is_between_brokers(row: re.Match[str]) -> bool:
    """Whether it is served to brokers alone: clients are not told of it, as they are not by Kafka's brokers."""
    return row["why"].startswith("between brokers")


def kafka() -> Versions:
    facts = ROOT / "tests" / "conformance" / "facts" / "kafka_4_3_1_api_versions.json"
    return {int(key): (low, high) for key, (low, high) in json.loads(facts.read_text())["versions"].items()}


def test_what_is_documented_as_served_is_what_the_broker_answers(broker: BrokerProcess) -> None:
    answered = advertised(broker)
    assert answered[ApiKey.PRODUCE][0] == 0, "librdkafka takes the message format from it (KAFKA-18659)"
    answered[ApiKey.PRODUCE] = (3, answered[ApiKey.PRODUCE][1])
    served = {
        key: versions(row["served"])
        for key, row in documented().items()
        if row["served"] != "no" and not is_between_brokers(row) and key not in TELEMETRY
    }
    assert served == answered
    assert all(documented()[key]["served"] == "0-0" for key in TELEMETRY), "told of while there is a subscription"


def test_what_is_documented_of_kafka_is_what_kafka_answers() -> None:
    theirs = {key: each for key, each in kafka().items() if key not in BETWEEN_BROKERS}
    assert theirs.pop(ApiKey.PRODUCE) == (0, APIS[ApiKey.PRODUCE].max_version)
    written = {
        key: versions(row["kafka"])
        for key, row in documented().items()
        if key not in TELEMETRY and not is_between_brokers(row)
    }
    del written[ApiKey.PRODUCE]
    assert written == theirs


def test_every_api_is_served_in_all_of_kafkas_versions_or_says_why_not() -> None:
    for row in documented().values():
        if row["served"] == "no":
            assert row["why"].startswith("belongs to"), row
        elif row["served"] != row["kafka"]:
            assert row["why"].startswith(("between brokers; ", "version ")), row
