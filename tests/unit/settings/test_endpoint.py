import pytest

from ottla.settings.definition import InvalidSettingError
from ottla.settings.endpoint import Endpoint, parse_endpoint, parse_host_port


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("PLAINTEXT://localhost:9092", Endpoint("localhost", 9092)),
        (" plaintext://:0 ", Endpoint("", 0)),
        ("PLAINTEXT://[::1]:9092", Endpoint("::1", 9092)),
        ("External_1://broker:9092", Endpoint("broker", 9092, "EXTERNAL_1")),
    ],
)
def test_a_listener_is_read(text, endpoint):
    assert parse_endpoint(text) == endpoint
    assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    "text", ["localhost:9092", "PLAINTEXT://localhost", "PLAINTEXT://::1:9092", "PLAINTEXT://h:99999", "://h:1", ""]
)
def test_a_broken_listener_is_refused(text):
    with pytest.raises(InvalidSettingError):
        parse_endpoint(text)


def test_host_and_port_of_a_command_line():
    assert parse_host_port("[fe80::1]:1") == ("fe80::1", 1)
    assert parse_host_port("broker-1.example:9092") == ("broker-1.example", 9092)
    with pytest.raises(InvalidSettingError):
        parse_host_port("broker")
