from ottla.broker.access import CLUSTER_NAME, Operation, ResourceType
from ottla.gateways.kafka.api_64_unregister_broker import API
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.unit.broker.rules import Rules


async def test_a_broker_that_is_not_there_is_not_registered(gateway):
    answer = await gateway.ask(API, UnregisterBrokerRequest(9))
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_a_broker_that_runs_is_not_taken_out(gateway):
    answer = await gateway.ask(API, UnregisterBrokerRequest(1))
    assert (answer.error_code, "stop it before" in answer.error_message) == (ErrorCode.INVALID_REQUEST, True)
    assert list(gateway.image.brokers) == [1]


async def test_whoever_may_not_alter_the_cluster_is_refused(open_gateway):
    rules = Rules()
    rules.deny(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    gateway = await open_gateway(authorizer=rules)
    answer = await gateway.ask(API, UnregisterBrokerRequest(9))
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
