"""The version spoken is the highest that both sides know."""

import pytest

from ottla.client.errors import BrokerError, ProtocolViolationError, UnsupportedApiError
from ottla.client.io.version_table import VersionTable, older_api_versions, spoken_versions
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest


@pytest.mark.parametrize(("broker", "chosen"), [((0, 99), 18), ((4, 12), 12), ((18, 30), 18), ((0, 4), 4)])
def test_the_highest_common_version_is_chosen(broker, chosen):
    assert VersionTable({FetchRequest.API_KEY: broker}).choose(FetchRequest) == chosen


@pytest.mark.parametrize("broker", [(0, 3), (19, 20)])
def test_no_common_version_is_an_error_that_says_both_ranges(broker):
    with pytest.raises(UnsupportedApiError, match=rf"versions {broker[0]} to {broker[1]} of Fetch.* 4 to 18"):
        VersionTable({FetchRequest.API_KEY: broker}).choose(FetchRequest)


def test_an_api_that_the_broker_does_not_list_is_an_error():
    with pytest.raises(UnsupportedApiError, match="no version of Fetch"):
        VersionTable({}).choose(FetchRequest)


def test_versions_this_client_does_not_speak_are_not_chosen():
    assert spoken_versions(FindCoordinatorRequest) == (4, 6)
    with pytest.raises(UnsupportedApiError):
        VersionTable({FindCoordinatorRequest.API_KEY: (0, 3)}).choose(FindCoordinatorRequest)


def test_a_broker_that_answers_with_an_error_has_no_table():
    with pytest.raises(BrokerError, match="UNSUPPORTED_VERSION"):
        VersionTable.from_response(ApiVersionsResponse(error_code=35))


def answer(response: ApiVersionsResponse, version: int) -> memoryview:
    return memoryview(bytes(4) + response.encode(version))


def test_an_older_broker_is_asked_again_in_the_version_it_names():
    refusal = ApiVersionsResponse(error_code=35, api_keys=(ApiVersion(api_key=18, min_version=0, max_version=2),))
    assert older_api_versions(answer(refusal, 0), 4) == 2


def test_an_older_broker_that_names_nothing_is_asked_in_version_zero():
    assert older_api_versions(answer(ApiVersionsResponse(error_code=35), 0), 4) == 0


def test_an_answer_in_the_version_asked_is_read_as_it_is():
    assert older_api_versions(answer(ApiVersionsResponse(), 3), 3) is None


def test_a_broker_that_refuses_what_it_claims_to_serve_is_not_asked_for_ever():
    refusal = ApiVersionsResponse(
        error_code=35, api_keys=(ApiVersion(api_key=ApiVersionsRequest.API_KEY, min_version=0, max_version=9),)
    )
    with pytest.raises(ProtocolViolationError):
        older_api_versions(answer(refusal, 0), 4)
