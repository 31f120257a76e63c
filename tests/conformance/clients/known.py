"""Every client library with the common face, by the name it has in the table of clients by features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.conformance.clients.aio import AioClient
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.clients.kafka_python import PythonClient
from tests.conformance.clients.ottla import OttlaClient
from tests.conformance.clients.peer_programs import FranzGoClient, JavaCodecClient, KafkajsClient

CLIENTS: dict[str, type[Any]] = {
    "confluent-kafka": ConfluentClient,
    "kafka-python": PythonClient,
    "aiokafka": AioClient,
    "franz-go": FranzGoClient,
    "kafkajs": KafkajsClient,
    "Ottla client": OttlaClient,
}
WITH_CODECS: dict[str, type[Any]] = {**CLIENTS, "Kafka's Java client": JavaCodecClient}
"""Those that write and read records in each codec."""
PEERS = ("franz-go", "kafkajs", "Kafka's Java client")
"""Those that are brought here for the tests only."""


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    """The marks of a test of a client."""
    return [pytest.mark.proves(client=name), *([pytest.mark.peer] if name in PEERS else [])]


def each_client(names: Iterable[str] = tuple(CLIENTS)) -> pytest.MarkDecorator:
    """Run a test with each client, given as `name`."""
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in names])


def each_client_and(
    argument: str, values_of: Callable[[type[Any]], Iterable[str]], feature: str
) -> pytest.MarkDecorator:
    """Run a test with each client and each of the things it has; every pair is a feature, `feature` with the value."""

    def pairs() -> Iterator[object]:
        for name, kind in CLIENTS.items():
            for value in values_of(kind):
                marks = [*marks_of(name), pytest.mark.proves(feature=feature.format(value))]
                yield pytest.param(name, value, marks=marks, id=f"{name}-{value}")

    return pytest.mark.parametrize(("name", argument), list(pairs()))
