"""What says who a client is, checked before anything is sent, and never shown."""

import pytest

from ottla.client.errors import InvalidOptionError
from ottla.client.options import ClientOptions
from ottla.client.sasl import ClientSasl

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def options(**settings):
    return ClientOptions.of("localhost:9092", **{"security_protocol": "SASL_PLAINTEXT", **settings})


@pytest.mark.parametrize(
    ("settings", "mechanism", "credentials"),
    [
        ({"sasl_username": "a", "sasl_password": "p"}, "SCRAM-SHA-512", ("a", "p")),
        ({"sasl_username": "a", "sasl_password": "p", "sasl_mechanism": "PLAIN"}, "PLAIN", ("a", "p")),
        ({"sasl_jaas_config": f'{SCRAM} username="a" password="p;";'}, "SCRAM-SHA-512", ("a", "p;")),
        ({"sasl_jaas_config": f"{PLAIN} username=a password=p;"}, "PLAIN", ("a", "p")),
        (
            {"sasl_jaas_config": f"{SCRAM} username=a password=p;", "sasl_mechanism": "SCRAM-SHA-256"},
            "SCRAM-SHA-256",
            ("a", "p"),
        ),
    ],
)
def test_a_name_and_a_password_come_by_themselves_or_in_a_jaas_line(settings, mechanism, credentials):
    made = options(**settings)
    assert made.sasl is not None
    assert (made.sasl.mechanism, made.sasl.credentials) == (mechanism, credentials)
    assert repr(credentials[1]) not in repr(made)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({}, "needs sasl.username and sasl.password"),
        ({"sasl_username": "a"}, "needs sasl.username and sasl.password"),
        ({"sasl_username": "a", "sasl_password": "p", "sasl_mechanism": "GSSAPI"}, "Kerberos"),
        ({"sasl_username": "a", "sasl_password": "p", "sasl_mechanism": "scram"}, "must be SCRAM-SHA-512 or"),
        ({"sasl_jaas_config": "secret"}, "must be one login module"),
        ({"sasl_jaas_config": f"{PLAIN} username=a password=p;", "sasl_mechanism": "SCRAM-SHA-512"}, "is not for"),
        ({"security_protocol": "SASL"}, "security_protocol must be"),
    ],
)
def test_what_cannot_be_is_said_without_the_password(settings, what):
    with pytest.raises(InvalidOptionError, match=what) as refused:
        options(**settings)
    assert "secret" not in str(refused.value)


def test_without_sasl_nobody_is_told_a_password():
    made = ClientOptions.of("localhost:9092", sasl_username="a", sasl_password="p")
    assert made.sasl is None
    assert ClientOptions(made.bootstrap, sasl=ClientSasl(sasl_username="a", sasl_password="p")).sasl is None


OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl_oauthbearer_token": lambda: " a.b.c\n"},
        {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token": lambda: "a.b.c"},
        {"sasl_jaas_config": f"{OAUTH};", "sasl_oauthbearer_token": lambda: "a.b.c"},
    ],
)
def test_a_token_comes_from_a_function(settings):
    made = options(**settings).sasl
    assert made is not None
    assert (made.mechanism, made.token()) == ("OAUTHBEARER", "a.b.c")
    assert "a.b.c" not in repr(made)


def test_a_token_comes_from_a_file_each_time(tmp_path):
    path = tmp_path / "the token"
    made = options(sasl_oauthbearer_token_endpoint_url=f"file://{path}".replace(" ", "%20")).sasl
    assert made is not None
    for token in ("a.b.c", "d.e.f"):
        path.write_text(f"{token}\n")
        assert made.token() == token
    for content in (b"", b"\xff", b"a b"):
        path.write_bytes(content)
        with pytest.raises(InvalidOptionError, match="token"):
            made.token()
    path.unlink()
    with pytest.raises(InvalidOptionError, match="No such file"):
        made.token()


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"sasl_mechanism": "OAUTHBEARER"}, "needs sasl_oauthbearer_token_endpoint_url or"),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_username": "a", "sasl_password": "p"}, "needs"),
        ({"sasl_oauthbearer_token_endpoint_url": "ftp://issuer/token"}, "must be file:///PATH"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://issuer/token"}, "or clientId and clientSecret"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://a:b@issuer/token"}, "without a name or a password"),
        ({"sasl_oauthbearer_token_endpoint_url": "https:///token"}, "https://HOST/PATH"),
        ({"sasl_oauthbearer_token": "a.b.c"}, "sasl_oauthbearer_token"),
        ({"sasl_jaas_config": f"{OAUTH};", "sasl_mechanism": "SCRAM-SHA-512"}, "is not for"),
        ({"sasl_jaas_config": f"{PLAIN} username=a password=p;", "sasl_mechanism": "OAUTHBEARER"}, "is not for"),
    ],
)
def test_a_token_needs_a_source(settings, what):
    with pytest.raises(InvalidOptionError, match=what):
        options(**settings)
