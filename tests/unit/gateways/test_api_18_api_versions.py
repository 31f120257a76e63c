import pytest

from ottla.gateways.kafka.api_18_api_versions import API
from ottla.gateways.kafka.apis import APIS
from ottla.gateways.kafka.gateway import TELEMETRY
from ottla.metadata.features import FEATURES
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest

SERVED = {feature.name: feature for feature in FEATURES.values() if feature.max_level}

EXTENSIONS = {key for key in ApiKey if key.is_extension}


async def ask(gateway, version, name="client", software_version="1.0"):
    return await gateway.ask(API, ApiVersionsRequest(name, software_version), version)


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_every_version_tells_what_is_served(gateway, version):
    answer = await ask(gateway, version)
    assert answer.error_code == ErrorCode.NONE
    served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert set(served) == {key for key, row in APIS.rows.items() if not row.is_between_brokers} - TELEMETRY - EXTENSIONS
    assert not {52, 53, 54, 56, 58, 59, 62, 63, 67} & set(served), "what Kafka's brokers do not tell clients of"
    assert served[18] == (0, 4)
    assert served[0][0] == 0, "librdkafka takes a Produce that does not start at 0 for an old broker"
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    expected = {name: (each.min_level, each.max_level) for name, each in SERVED.items()}
    if version < 3:
        expected = {}
    elif version == 3:  # whose clients take a lowest level of 0 for a mistake (KAFKA-17011)
        expected = {name: levels for name, levels in expected.items() if levels[0]}
    assert supported == expected


async def test_only_the_own_client_is_told_of_what_kafka_lacks(gateway):
    told = {each.api_key for each in (await ask(gateway, 4)).api_keys}
    told_own = {each.api_key for each in (await ask(gateway, 4, "ottla")).api_keys}
    assert EXTENSIONS
    assert told_own - told == EXTENSIONS


async def test_the_finalized_levels_are_told_with_the_offset_of_the_metadata_that_says_so(gateway):
    answer = await ask(gateway, 4)
    finalized = {each.name: (each.min_version_level, each.max_version_level) for each in answer.finalized_features}
    assert finalized == {name: (each.max_level, each.max_level) for name, each in SERVED.items()}
    assert "metadata.version" in finalized
    assert answer.finalized_features_epoch == gateway.image.end_offset


@pytest.mark.parametrize(
    ("name", "software_version", "code"),
    [
        ("apache-kafka-java", "4.3.0", ErrorCode.NONE),
        ("a", "1", ErrorCode.NONE),
        ("", "1", ErrorCode.INVALID_REQUEST),
        ("-a", "1", ErrorCode.INVALID_REQUEST),
        ("a", "1.", ErrorCode.INVALID_REQUEST),
        ("a b", "1", ErrorCode.INVALID_REQUEST),
        ("a\n", "1", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_client_says_decently_what_it_is(gateway, name, software_version, code):
    assert (await ask(gateway, 4, name, software_version)).error_code == code
