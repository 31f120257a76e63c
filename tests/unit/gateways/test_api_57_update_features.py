import pytest

from ottla.broker.access import CLUSTER_NAME, Operation, ResourceType
from ottla.gateways.kafka.api_57_update_features import API
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.broker.rules import Rules

METADATA_VERSION = "metadata.version"


def update(level, feature=METADATA_VERSION, **fields):
    return UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey(feature, level),), **fields)


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_every_version_finalizes_a_level(gateway, version):
    level = gateway.image.feature_level(METADATA_VERSION)
    answer = await gateway.ask(API, update(level), version)
    assert answer.error_code == ErrorCode.NONE
    assert [each.feature for each in answer.results] == ([METADATA_VERSION] if version < 2 else [])
    assert gateway.image.feature_levels == {METADATA_VERSION: level}


async def test_a_request_that_only_checks_finalizes_nothing(gateway):
    level = gateway.image.feature_level(METADATA_VERSION)
    assert (await gateway.ask(API, update(level, validate_only=True))).error_code == ErrorCode.NONE
    assert gateway.image.feature_levels == {}


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_a_refusal_is_about_the_whole_request(gateway, version):
    answer = await gateway.ask(API, update(1, "unknown.version"), version)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, ())
    assert "unknown.version" in answer.error_message


async def test_whoever_may_not_alter_the_cluster_is_refused(open_gateway):
    rules = Rules()
    rules.deny(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    gateway = await open_gateway(authorizer=rules)
    assert (await gateway.ask(API, update(30))).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
