import pytest

from ottla.gateways.kafka.api_18_api_versions import API
from ottla.gateways.kafka.apis import APIS
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.unit.gateways.answered import NOTHING, AnsweredContext, gateway_of


def ask(version, name="client", software_version="1.0"):
    ctx = AnsweredContext(gateway_of(NOTHING), version, NOTHING)
    response = API.handle(ctx, ApiVersionsRequest(name, software_version))
    return ApiVersionsResponse.decode(version, response.encode(version))


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
def test_every_version_tells_what_is_served(version):
    answer = ask(version)
    assert answer.error_code == ErrorCode.NONE
    served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert set(served) == set(APIS)
    assert served[18] == (0, 4)
    assert served[0][0] == 0, "librdkafka takes a Produce that does not start at 0 for an old broker"
    if version >= 3:
        assert (answer.supported_features, answer.finalized_features) == ((), ())


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
def test_a_client_says_decently_what_it_is(name, software_version, code):
    assert ask(4, name, software_version).error_code == code
