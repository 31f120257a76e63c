"""What tests of administration share: clients, and the outcome of a request about one thing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import KafkaError, KafkaException

from tests.broker_process import BrokerProcess

WAIT_S = 60


def fresh_name() -> str:
    return f"admin-{uuid4().hex[:8]}"


def only(futures: dict[Any, Future[Any]]) -> Any:
    """The result of a request about one thing."""
    (future,) = futures.values()
    return future.result(WAIT_S)


def refused(request: Callable[[], Any]) -> KafkaError:
    """The error that a request of one thing is refused with."""
    with pytest.raises(KafkaException) as raised:
        request()
    error = raised.value.args[0]
    assert isinstance(error, KafkaError)
    return error


@asynccontextmanager
async def aio_client(broker: BrokerProcess) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await client.start()
    yield client
    await client.close()
