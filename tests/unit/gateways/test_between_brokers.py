"""What brokers say to each other is believed from nobody else, and from each broker only what it says of itself."""

import asyncio
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.gateways.kafka.apis import APIS
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS, Principal, broker_principal
from ottla.protocol.api_keys import ApiKey
from tests.unit.gateways.answered import AnsweredContext, gateway_of

BETWEEN_BROKERS = [key for key, row in APIS.rows.items() if row.is_between_brokers]
OF_SHARE_STATES = range(83, 88)
WITHOUT_NUMBER = {ApiKey.ENVELOPE, ApiKey.REDIS_COMMANDS, ApiKey.SHARE_READS}
BY_NUMBER = [key for key in BETWEEN_BROKERS if key not in WITHOUT_NUMBER and key not in OF_SHARE_STATES]
"""Those that say which broker asks."""


async def ask(key: int, principal: Principal, **fields: Any) -> Any:
    """The answer of a broker that has nothing: whatever a handler looks for is not there, and that fails the test."""
    api = APIS[key]
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    ctx = AnsweredContext(gateway_of(SimpleNamespace()), api.max_version, answered.set_result)
    ctx.kafka_connection.principal = principal
    result = api.handle(ctx, api.request_type(**fields))
    if asyncio.iscoroutine(result):
        result = await result
    return result if result is not None else await answered


@pytest.mark.parametrize("key", BETWEEN_BROKERS)
@pytest.mark.parametrize("principal", [ANONYMOUS, Principal("User", "1"), Principal("broker", "1")], ids=str)
async def test_whoever_has_not_proved_to_be_a_broker_is_refused(key: int, principal: Principal) -> None:
    if key in OF_SHARE_STATES:
        module = import_module(APIS[key].request_type.__module__)
        partition = module.PartitionData(partition=3)
        (topic_type,) = (each for name, each in vars(module).items() if name.endswith(("StateData", "SummaryData")))
        (result,) = (await ask(key, principal, topics=(topic_type(partitions=(partition,)),))).results
        (answer,) = result.partitions
        assert answer.partition == 3
    else:
        answer = await ask(key, principal)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("key", BY_NUMBER)
async def test_a_broker_speaks_for_no_other(key: int) -> None:
    answer = await ask(key, broker_principal(2), broker_id=3)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_clients_are_told_of_none_of_these() -> None:
    gateway = gateway_of(SimpleNamespace())
    assert not {each.api_key for each in gateway.served_versions} & set(BETWEEN_BROKERS)
    assert {each.api_key for each in gateway.served_versions_to_brokers} == set(APIS)
