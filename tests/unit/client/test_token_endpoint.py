"""Tokens of an identity provider, which is a real server: when it is asked, and what is said when it gives none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.errors import BrokerError, InvalidOptionError, TokenUnavailableError
from ottla.client.sasl import ClientSasl
from ottla.client.token_endpoint import TokenEndpoint, TokenRequest
from ottla.model.error_code import ErrorCode
from ottla.runtime.clock import ManualClock
from ottla.security.jaas_tls import jaas_tls
from tests.certificates import Authority
from tests.identity_provider import IdentityProvider

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
HOUR_MS = 3_600_000


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as serving:
        serving.claims = {"exp": None}  # the answer says how long it lives, by whatever clock
        yield serving


def request(provider: IdentityProvider, **changed: object) -> TokenRequest:
    said = {"url": f"{provider.url}/token", "client_id": "alice", "client_secret": "s3cret", "backoff_ms": 1, **changed}
    return TokenRequest(**said)  # type: ignore[arg-type]


def test_who_asks_is_in_the_header_and_what_for_in_the_body(provider: IdentityProvider) -> None:
    TokenEndpoint(request(provider, scope="a b")).token()
    provider.secrets["a%3Ab"] = "%2F%26"
    TokenEndpoint(request(provider, client_id="a:b", client_secret="/&", header_urlencode=True)).token()
    assert provider.asked == [
        {"client": "alice", "secret": "s3cret", "grant_type": "client_credentials", "scope": "a b"},
        {"client": "a%3Ab", "secret": "%2F%26", "grant_type": "client_credentials"},
    ]


def test_a_token_is_asked_for_again_after_four_fifths_of_its_life(provider: IdentityProvider) -> None:
    clock = ManualClock()
    endpoint = TokenEndpoint(request(provider), clock)
    first = endpoint.token()
    clock.advance(int(HOUR_MS * 0.8) - 1)
    assert endpoint.token() == first
    assert len(provider.asked) == 1
    clock.advance(1)
    endpoint.token()
    assert len(provider.asked) == 2


def test_a_token_that_says_when_it_ends_is_believed_over_the_answer(provider: IdentityProvider) -> None:
    clock = ManualClock()
    provider.claims = {"exp": clock.now_ms() / 1000 + 60}
    endpoint = TokenEndpoint(request(provider), clock)
    endpoint.token()
    clock.advance(48_000)
    endpoint.token()
    assert len(provider.asked) == 2


def test_a_token_that_is_good_is_shown_while_the_provider_cannot_give_another(provider: IdentityProvider) -> None:
    clock = ManualClock()
    endpoint = TokenEndpoint(request(provider, backoff_max_ms=1), clock)
    first = endpoint.token()
    clock.advance(HOUR_MS - 1)
    provider.failures = [503, 503]
    assert endpoint.token() == first
    clock.advance(1)
    with pytest.raises(TokenUnavailableError, match="status 503"):
        endpoint.token()
    assert provider.failures == []


def test_a_provider_that_fails_is_asked_again(provider: IdentityProvider) -> None:
    provider.failures = [500, 429, 503]
    TokenEndpoint(request(provider)).token()
    assert len(provider.asked) == 4


def test_who_is_refused_is_told_why_and_does_not_ask_again(provider: IdentityProvider) -> None:
    with pytest.raises(BrokerError, match=r"no token to 'alice': status 401, invalid_client: who.n?are you\?") as error:
        TokenEndpoint(request(provider, client_secret="guess")).token()
    assert error.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "\n" not in str(error.value)
    assert "guess" not in str(error.value) + repr(request(provider, client_secret="guess"))
    assert len(provider.asked) == 1


def test_the_certificate_of_a_provider_is_checked_by_the_ssl_options_of_the_jaas_line(tmp_path: Path) -> None:
    authority = Authority()
    trusted = authority.write(tmp_path / "ca.pem")
    with IdentityProvider(certificate=authority.identity("provider").write_pem(tmp_path / "key.pem")) as provider:

        def sasl(options: str) -> ClientSasl:
            return ClientSasl(
                sasl_oauthbearer_token_endpoint_url=f"{provider.url}/token",
                sasl_jaas_config=f'{OAUTH} clientId=alice clientSecret="s3cret" {options};',
                sasl_login_retry_backoff_max_ms=1,
            )

        assert sasl(f'ssl.truststore.location="{trusted}" ssl.truststore.type=PEM').token()
        with pytest.raises(TokenUnavailableError, match=r"not believed.*ssl\.truststore\.location"):
            sasl("").token()
        with pytest.raises(InvalidOptionError, match=r"^sasl_jaas_config: ssl\.truststore\.location=.*No such file"):
            sasl(f'ssl.truststore.location="{tmp_path}/none"').token()


def test_options_of_a_jaas_line_are_settings_of_tls() -> None:
    config = jaas_tls(
        {
            "clientId": "a",
            "ssl.truststore.type": "pem",
            "ssl.enabled.protocols": "TLSv1.3",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert config is not None
    assert (config.trust_store.type, config.versions, config.checks_host_name) == ("PEM", ("TLSv1.3",), False)
    assert jaas_tls({"clientId": "a"}) is None
