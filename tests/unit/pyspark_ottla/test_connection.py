"""Where the brokers are, from the options or the environment."""

import pickle

import pytest

from ottla.client.options import ClientOptions
from pyspark_ottla.connection import CONNECTION_OPTIONS, Connection
from pyspark_ottla.options import OptionError, Options
from tests.certificates import Authority


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)


def connection(**given: str) -> Connection:
    options = {"kafka." + name.replace("_", "."): value for name, value in given.items()}
    return Connection.of(Options(options, CONNECTION_OPTIONS))


def test_the_address_comes_from_the_option():
    assert connection(bootstrap_servers="a:1,b:2").bootstrap == "a:1,b:2"


def test_the_variable_stands_in_for_the_option_and_the_option_goes_first(monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "c:3")
    assert connection().bootstrap == "c:3"
    assert connection(bootstrap_servers="a:1").bootstrap == "a:1"


def test_without_any_address_the_error_says_what_to_write():
    with pytest.raises(OptionError, match=r"kafka.bootstrap.servers is missing: write HOST:PORT"):
        connection()


def test_an_address_that_is_none_is_refused_when_the_job_is_planned():
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        connection(bootstrap_servers="a:b:c")


def test_kafkas_client_settings_reach_the_client():
    made = connection(bootstrap_servers="a:1", request_timeout_ms="77", client_id="me", retry_backoff_ms="5")
    options = ClientOptions.of(made.bootstrap, **dict(made.settings))
    assert (options.request_timeout_ms, options.client_id, options.retry_backoff_ms) == (77, "me", 5)


def test_encryption_and_a_login_reach_the_client_and_no_message():
    authority = Authority()
    made = connection(
        bootstrap_servers="a:1",
        security_protocol="SASL_SSL",
        ssl_truststore_certificates=authority.certificate_pem,
        sasl_mechanism="PLAIN",
        sasl_username="anna",
        sasl_password="secret",
    )
    options = ClientOptions.of(made.bootstrap, **dict(made.settings))
    assert (options.security_protocol, options.sasl.credentials) == ("SASL_SSL", ("anna", "secret"))
    assert options.tls.context().get_ca_certs()
    assert "secret" not in repr(made)
    assert pickle.loads(pickle.dumps(made)) == made


def test_what_is_only_for_encryption_says_nothing_where_there_is_none():
    made = connection(bootstrap_servers="a:1", security_protocol="PLAINTEXT", sasl_mechanism="PLAIN")
    assert ClientOptions.of(made.bootstrap, **dict(made.settings)).sasl is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"security_protocol": "TLS"}, "kafka.security.protocol: write PLAINTEXT or SSL"),
        ({"security_protocol": "SSL", "ssl_truststore_location": "/no/such"}, "ssl.truststore.location=/no/such"),
        ({"security_protocol": "SASL_SSL"}, r"needs sasl\.username"),
    ],
)
def test_encryption_that_cannot_be_is_refused_rather_than_left_out(settings, said):
    with pytest.raises(OptionError, match=said):
        connection(bootstrap_servers="a:1", **settings)


def test_equal_connections_are_equal_on_the_other_side_of_a_pickle():
    made = connection(bootstrap_servers="a:1")
    assert pickle.loads(pickle.dumps(made)) == made
    assert len({made, pickle.loads(pickle.dumps(made))}) == 1
