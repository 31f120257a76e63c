"""What `-X` and property files make of a client, and which of them is stronger."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ottla.cli.client_properties import KEYS, Kind, over_options
from ottla.cli.connection import bootstrap_option, client_options
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import MistakesError
from ottla.client.consuming.consumer_options import ConsumerOptions
from ottla.client.options import ClientOptions
from ottla.client.producing.produce import Acks
from ottla.client.producing.producer_options import ProducerOptions
from ottla.client.sasl import ClientSasl
from ottla.client.tls import ClientTls

OPTIONS_OF = {Kind.ANY: ClientOptions, Kind.PRODUCER: ProducerOptions, Kind.CONSUMER: ConsumerOptions}


def invoked(*arguments: str, kind: Kind | None = None, flags: bool = False, **defaults: Any) -> Any:
    """The options of a client, and of the command's kind, that a command line gives; what was said on stderr."""
    found: dict[str, Any] = {}

    @click.command()
    @bootstrap_option
    @click.option("--linger-ms", type=int, default=5)
    def command(bootstrap: str, linger_ms: int) -> None:
        if kind is not None:
            given = {"linger_ms": linger_ms} if flags else {}
            found["kind"] = OPTIONS_OF[kind](**over_options(kind, **defaults, **given))
        found["client"] = client_options(bootstrap)

    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return found["client"], found.get("kind"), result.stderr


def properties(tmp_path: Path, text: str) -> str:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return str(path)


def test_a_key_of_kafka_sets_the_option_of_the_client():
    client, _, said = invoked("-X", "request.timeout.ms=1234", "-X", "client.id=etl")
    assert (client.request_timeout_ms, client.client_id, said) == (1234, "etl", "")
    assert invoked()[0].client_id == "ottla-cli"


def test_what_stands_on_the_command_line_is_stronger_than_a_file(tmp_path):
    file = properties(tmp_path, "request.timeout.ms=1\nclient.id = from file\nbootstrap.servers=there:1\n")
    for order in (("--config", file, "-X", "client.id=x"), ("-X", "client.id=x", "--command-config", file)):
        client, _, _ = invoked(*order)
        assert (client.request_timeout_ms, client.client_id) == (1, "x")
        assert [str(address) for address in client.bootstrap] == ["there:1"]


def test_where_the_broker_is_is_said_by_the_flag_then_by_a_property(monkeypatch):
    def where(*arguments: str) -> list[str]:
        return [str(address) for address in invoked(*arguments)[0].bootstrap]

    assert where("-b", "here:1", "-X", "bootstrap.servers=there:2") == ["here:1"]
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "env:3")
    assert where() == ["env:3"]
    assert where("-X", "bootstrap.servers=there:2") == ["there:2"]


def test_a_producer_has_keys_of_its_own_and_a_flag_that_was_given_is_stronger():
    arguments = ("-X", "acks=1", "-X", "linger.ms=77", "-X", "compression.type=zstd", "-X", "enable.idempotence=false")
    _, producer, _ = invoked(*arguments, kind=Kind.PRODUCER, flags=True, acks=Acks.ALL)
    assert (producer.acks, producer.linger_ms, producer.compression, producer.idempotent) == (Acks.LEADER, 77, 4, False)
    _, producer, _ = invoked(*arguments, "--linger-ms", "3", kind=Kind.PRODUCER, flags=True)
    assert producer.linger_ms == 3


def test_a_consumer_has_keys_of_its_own():
    _, consumer, _ = invoked(
        "-X", "isolation.level=read_committed", "-X", "auto.offset.reset=earliest", kind=Kind.CONSUMER
    )
    assert (consumer.isolation.name, consumer.auto_offset_reset.name) == ("READ_COMMITTED", "EARLIEST")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("no.such.key=1", "is not a key"),
        ("acks=1", "is not a key of this command"),
        ("request.timeout.ms=soon", "whole number"),
        ("request.timeout.ms=-1", "whole number"),
        ("sasl.kerberos.service.name=kafka", "not supported by this client"),
        ("security.providers=x", "not supported by this client"),
        ("no-equals-sign", "is not KEY=VALUE"),
        ("=1", "is not KEY=VALUE"),
        ("request.timeout=1", "did you mean request.timeout.ms"),
    ],
)
def test_a_mistake_is_a_usage_error(text, what):
    with pytest.raises((click.UsageError, MistakesError), match=what):
        invoked("-X", text)


def test_all_mistakes_are_said_at_once_with_file_and_line(tmp_path):
    file = properties(
        tmp_path, "# mine\nclient.id=c\nrequest.timeout.ms=soon\n\nsasl.kerberos.service.name=x\nacks=maybe\n"
    )
    with pytest.raises(MistakesError) as refused:
        invoked("--config", file, "-X", "no.such=1", kind=Kind.PRODUCER)
    places = [line.partition(": ")[0] for line in refused.value.lines]
    assert places == [f"{file}:3", f"{file}:5", f"{file}:6", "-X"]
    assert refused.value.exit_code == ExitCode.USAGE


def test_a_file_that_is_written_for_other_programs_too_is_read_with_a_word(tmp_path):
    file = properties(tmp_path, "key.serializer=org.example.S\nsecurity.protocol=PLAINTEXT\nclient.id=c\nacks=all\n")
    client, _, said = invoked("--config", file)
    assert client.client_id == "c"
    assert said.count("\n") == 2
    assert "key.serializer is ignored" in said
    with pytest.raises(MistakesError, match="ssl"):
        invoked("--config", properties(tmp_path, "ssl.engine.factory.class=x"))


def test_a_file_that_cannot_be_read_is_said_so(tmp_path):
    with pytest.raises(OSError, match="nosuch"):
        invoked("--config", str(tmp_path / "nosuch"))
    with pytest.raises(MistakesError, match=r"client\.properties:2: .* hexadecimal"):
        invoked("--config", properties(tmp_path, "b=1\na=\\u12"))


@pytest.mark.parametrize("key", KEYS)
def test_every_key_is_an_option_of_its_kind(key):
    known = KEYS[key]
    fields = {
        *OPTIONS_OF[known.kind].__struct_fields__,
        *ClientSasl.__struct_fields__,
        *ClientTls.__struct_fields__,
    }
    assert known.option in fields
