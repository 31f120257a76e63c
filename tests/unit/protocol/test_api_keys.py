"""The table of APIs against the schema tables and against kio."""

import re
import subprocess
import sys

import pytest
from kio.index import load_request_schema, load_response_schema

from ottla.protocol.api_keys import APIS, Api, ApiKey
from ottla.protocol.message import ApiMessage
from ottla.protocol.schema import SCHEMA_DIRECTORY, parse
from tests.unit.protocol.message_strategy import table_of

REMOVED_OR_BETWEEN_BROKERS = {
    **dict.fromkeys(range(4, 8), "removed in Kafka 4.0"),
    **dict.fromkeys((52, 53, 54, 59, 62, 70, 82), "asked of controllers only"),
    **dict.fromkeys(range(83, 88), "between brokers only"),
}


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_an_api_has_the_versions_of_its_table(api: Api) -> None:
    for message_class in (api.request_class, api.response_class):
        schema = table_of(message_class).messages[message_class.__name__]
        assert (schema.versions.first, schema.versions.last) == (api.min_version, api.max_version)
        assert (schema.flexible and schema.flexible.first) == api.first_flexible_version
        assert (api.min_version, api.max_version) == (message_class.MIN_VERSION, message_class.MAX_VERSION)
        assert api.key == message_class.API_KEY


def test_every_table_of_an_api_is_listed_and_the_keys_have_no_other_gaps() -> None:
    tables = {parse(path.read_text()).api_key for path in SCHEMA_DIRECTORY.glob("messages/*.schema")} - {None}
    assert tables == set(APIS) == set(ApiKey)
    extensions = {int(key) for key in ApiKey if key.is_extension}
    assert set(range(93)) == tables - extensions | set(REMOVED_OR_BETWEEN_BROKERS)


@pytest.mark.slow
@pytest.mark.parametrize("api", [api for api in APIS.values() if not api.key.is_extension], ids=lambda api: api.name)
def test_header_versions_are_those_that_kio_uses(api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        request = load_request_schema(api.key, version).__header_schema__
        response = load_response_schema(api.key, version).__header_schema__
        assert request.__version__ == api.request_header_version(version)
        assert response.__version__ == api.response_header_version(version)


def test_names_are_those_of_the_messages() -> None:
    for api in APIS.values():
        assert issubclass(api.request_class, ApiMessage)
        assert api.request_class.__name__ == f"{api.name}Request"
        assert re.sub("_", "", api.key.name).lower() == api.name.lower()


def test_no_message_is_imported_before_it_is_asked_for() -> None:
    program = (
        "import sys, ottla.protocol.frame;"
        "print(sorted(name for name in sys.modules if name.startswith('ottla.protocol.messages.')))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "['ottla.protocol.messages.header']"
