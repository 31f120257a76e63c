"""SCRAM against the vectors of RFC 5802's family, against another implementation, and against liars."""

import base64
import hashlib
from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient as KafkaPythonClient

from ottla.model.scram_credential import ScramCredential
from ottla.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    Mechanism,
    ScramError,
    credential_of,
    quoted,
    salted_password,
    unquoted,
)
from ottla.security.scram_client import Salting, ScramClient
from ottla.security.scram_server import ScramServer

PASSWORD = b"pencil"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_7677 = (
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
CREDENTIALS = {mechanism: credential_of(mechanism, PASSWORD, SALT, 4096) for mechanism in MECHANISMS.values()}


def server(mechanism: Mechanism = SCRAM_SHA_512, nonce: str = SERVER_NONCE) -> ScramServer:
    return ScramServer(mechanism, lambda _user, _said: CREDENTIALS[mechanism], nonce)


def client(mechanism: Mechanism = SCRAM_SHA_512, nonce: str = CLIENT_NONCE) -> ScramClient:
    return ScramClient(mechanism, "user", nonce)


def salted(mechanism: Mechanism, salting: Salting, password: bytes = PASSWORD) -> bytes:
    return salted_password(mechanism, password, *salting)


def test_the_client_says_what_the_example_of_rfc_7677_says() -> None:
    first, challenge, final, outcome = RFC_7677
    speaker = client(SCRAM_SHA_256)
    assert speaker.first() == first
    salting = speaker.challenged(challenge)
    assert speaker.final(salted(SCRAM_SHA_256, salting)) == final
    speaker.verify(outcome)


def test_the_server_says_what_the_example_of_rfc_7677_says() -> None:
    first, challenge, final, outcome = RFC_7677
    listener = server(SCRAM_SHA_256)
    assert listener.challenge(first) == challenge
    assert listener.user is None
    assert listener.outcome(final) == outcome
    assert listener.user == "user"


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=lambda each: each.name)
def test_another_implementation_believes_the_server_and_is_believed(mechanism: Mechanism) -> None:
    other = KafkaPythonClient("user", PASSWORD.decode(), mechanism.name)
    listener = server(mechanism)
    other.process_server_first_message(listener.challenge(other.first_message()))
    other.process_server_final_message(listener.outcome(other.final_message()))
    assert listener.user == "user"


def exchange(speaker: ScramClient, listener: ScramServer, password: bytes = PASSWORD) -> None:
    salting = speaker.challenged(listener.challenge(speaker.first()))
    speaker.verify(listener.outcome(speaker.final(salted(SCRAM_SHA_512, salting, password))))


def test_the_wrong_password_is_refused() -> None:
    listener = server()
    with pytest.raises(ScramError, match="the client did not prove that it knows the password"):
        exchange(client(), listener, b"pencils")
    assert listener.user is None


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    speaker = client()
    speaker.final(salted(SCRAM_SHA_512, speaker.challenged(server().challenge(speaker.first()))))
    forged = b"v=" + base64.b64encode(hashlib.sha512(b"a guess").digest())
    with pytest.raises(ScramError, match="the server did not prove"):
        speaker.verify(forged)


def test_a_proof_that_was_overheard_is_worth_nothing_in_another_exchange() -> None:
    """CVE-2024-56128: whoever has heard an exchange could send its end again."""
    speaker = client()
    first = speaker.first()
    final = speaker.final(salted(SCRAM_SHA_512, speaker.challenged(server().challenge(first))))
    again = server(nonce="another-nonce-of-the-server")
    again.challenge(first)
    with pytest.raises(ScramError, match="another exchange"):
        again.outcome(final)
    assert again.user is None


def test_the_nonce_of_the_second_message_is_the_whole_one_of_this_exchange() -> None:
    speaker, listener = client(), server()
    final = speaker.final(salted(SCRAM_SHA_512, speaker.challenged(listener.challenge(speaker.first()))))
    with pytest.raises(ScramError, match="another exchange"):
        listener.outcome(final.replace(SERVER_NONCE.encode(), b""))


def test_what_a_client_says_about_itself_is_signed_and_reaches_whoever_knows_the_credentials() -> None:
    heard: dict[str, str] = {}

    def find(user: str, said: Mapping[str, str]) -> ScramCredential:
        heard.update(said, user=user)
        return CREDENTIALS[SCRAM_SHA_512]

    listener = ScramServer(SCRAM_SHA_512, find, SERVER_NONCE)
    exchange(ScramClient(SCRAM_SHA_512, "a=b,c", CLIENT_NONCE, {"cluster": "abc", "broker": "2"}), listener)
    assert heard == {"user": "a=b,c", "cluster": "abc", "broker": "2"}
    assert listener.user == "a=b,c"


def test_what_is_changed_on_the_way_is_refused() -> None:
    speaker, listener = ScramClient(SCRAM_SHA_512, "user", CLIENT_NONCE, {"broker": "2"}), server()
    challenge = listener.challenge(speaker.first().replace(b"broker=2", b"broker=3"))
    with pytest.raises(ScramError, match="did not prove"):
        listener.outcome(speaker.final(salted(SCRAM_SHA_512, speaker.challenged(challenge))))


@pytest.mark.parametrize("iterations", [1, ITERATIONS_MIN - 1, ITERATIONS_MAX + 1, 999_999_999, 10**12])
def test_a_server_cannot_have_the_password_salted_too_little_or_too_long(iterations: int) -> None:
    speaker = client()
    speaker.first()
    with pytest.raises(ScramError, match="iteration"):
        speaker.challenged(f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i={iterations}".encode())


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"e=other-error",
        b"r=abc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        f"r={CLIENT_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(),
        f"r={CLIENT_NONCE}{SERVER_NONCE},s=!,i=4096".encode(),
        f"r={CLIENT_NONCE}{SERVER_NONCE},s=YQ==,i=4096".encode(),
        f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1".encode(),
        f"m=1,r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(),
        b"\xff\xfe",
        b"r=" + b"a" * 5000,
    ],
)
def test_a_challenge_that_is_none_is_refused(challenge: bytes) -> None:
    speaker = client()
    speaker.first()
    with pytest.raises(ScramError):
        speaker.challenged(challenge)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"n,,r=rOprNGfwEbeRWgbNEkqO,n=user",
        b"n,,n=user,r=short",
        b"n,,n=,r=rOprNGfwEbeRWgbNEkqO",
        b"n,,n=us=er,r=rOprNGfwEbeRWgbNEkqO",
        b"n,a=admin,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"n,b,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"p=tls-unique,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"n,,m=1,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO,n=admin",
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO,broker",
        b"n,,n=us\ner,r=rOprNGfwEbeRWgbNEkqO",
        b"\xff",
        b"n,,n=user,r=" + b"a" * 5000,
    ],
)
def test_a_first_message_that_is_none_is_refused_and_so_is_what_follows(first: bytes) -> None:
    listener = server()
    with pytest.raises(ScramError):
        listener.challenge(first)
    with pytest.raises(ScramError, match="out of turn"):
        listener.outcome(RFC_7677[2])
    assert listener.user is None


@pytest.mark.parametrize(
    "change",
    [
        (b"c=biws", b"c=eSws"),
        (b",p=", b",q="),
        (b"p=", b"p=!"),
        (b"c=biws,", b""),
    ],
)
def test_a_second_message_that_is_none_is_refused(change: tuple[bytes, bytes]) -> None:
    speaker, listener = client(), server()
    final = speaker.final(salted(SCRAM_SHA_512, speaker.challenged(listener.challenge(speaker.first()))))
    with pytest.raises(ScramError):
        listener.outcome(final.replace(*change))
    with pytest.raises(ScramError, match="out of turn"):
        listener.outcome(final)
    assert listener.user is None


def test_a_proof_without_a_challenge_is_out_of_turn() -> None:
    with pytest.raises(ScramError, match="out of turn"):
        server().outcome(RFC_7677[2])
    with pytest.raises(ScramError, match="out of turn"):
        client().verify(RFC_7677[3])


@given(st.text())
def test_a_name_that_is_quoted_reads_back(name: str) -> None:
    assert unquoted(quoted(name)) == name
    assert "," not in quoted(name)


@given(st.binary(max_size=200) | st.sampled_from(RFC_7677))
def test_whatever_a_stranger_sends_is_an_answer_or_a_refusal(data: bytes) -> None:
    for message in (data, b"n,,n=user,r=" + data, RFC_7677[1] + data):
        listener, speaker = server(), client()
        speaker.first()
        for step in (listener.challenge, listener.outcome, speaker.challenged, speaker.verify):
            with suppress(ScramError):
                step(message)
        assert listener.user is None
