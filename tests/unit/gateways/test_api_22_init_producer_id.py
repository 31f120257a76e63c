import pytest

from ottla.gateways.kafka.api_22_init_producer_id import API
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_every_version_gives_a_new_id_with_epoch_0(gateway, version):
    given = [
        await gateway.ask(API, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), version)
        for _ in range(3)
    ]
    assert len({each.producer_id for each in given}) == 3
    assert {(each.error_code, each.producer_epoch) for each in given} == {(ErrorCode.NONE, 0)}


async def test_a_producer_that_had_an_id_gets_another_as_from_kafka(gateway):
    answer = await gateway.ask(API, InitProducerIdRequest(transactional_id=None, producer_id=5000, producer_epoch=3))
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
    assert answer.producer_id != 5000


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest(transactional_id=None, producer_id=5), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id=None, producer_epoch=5), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_is_refused(gateway, request_, code):
    answer = await gateway.ask(API, request_)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)
