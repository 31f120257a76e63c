"""The flags of `ottla serve` become the options of the server."""

import io
import logging

import pytest

import ottla.server
from ottla.cli.exit_codes import ExitCode
from ottla.cli.main import run
from ottla.metadata.store.interface import StoreError


@pytest.fixture
def served(monkeypatch):
    """What the server was asked for, instead of a server, by a command that nobody has told what to log yet."""
    monkeypatch.setattr(logging.getLogger(), "level", logging.WARNING)
    asked = []
    monkeypatch.setattr(ottla.server, "serve", lambda options, **_: asked.append(options))
    return asked


def test_without_flags_everything_is_the_servers_to_choose(served):
    assert run(["serve"]) == ExitCode.OK
    [options] = served
    assert (options.data_dir, options.kafka, options.advertise, dict(options.settings)) == (None, None, None, {})


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9093", ("localhost", 9093)),
        ("[::1]:9092", ("::1", 9092)),
        (":9092", ("", 9092)),
        ("9092", ("127.0.0.1", 9092)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
    ],
)
def test_addresses_are_read(served, text, address):
    assert run(["serve", "--kafka", text]) == ExitCode.OK
    assert served[0].kafka == address


@pytest.mark.parametrize(
    ("flag", "port"), [("kafka", 9092), ("advertise", 9092), ("nsq", 4150), ("nsq-http", 4151), ("redis", 6379)]
)
def test_a_host_alone_has_the_usual_port_of_the_protocol(served, flag, port):
    assert run(["serve", f"--{flag}", "a.host"]) == ExitCode.OK
    assert getattr(served[0], flag.replace("-", "_")) == ("a.host", port)


def test_settings_of_the_command_line_stand_over_those_of_the_file(served, tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("# mine\nnum.partitions=3\nlog.retention.hours: 24\n")
    flags = ["--data", str(tmp_path), "--config", str(config), "--set", "num.partitions=5", "--advertise", "host:1"]
    assert run(["serve", *flags]) == ExitCode.OK
    [options] = served
    assert options.data_dir == tmp_path
    assert options.advertise == ("host", 1)
    assert dict(options.settings) == {"num.partitions": "5", "log.retention.hours": "24"}


SECRETS = (
    "ssl.key.password=hush",
    "listener.name.sasl_ssl.plain.sasl.jaas.config=hush",
    "cluster.secret=hush",
    "listener.name.x.ssl.keystore.key=hush",
)


@pytest.mark.parametrize(
    ("line", "mode", "is_said"),
    [
        *((line, 0o644, True) for line in SECRETS),
        (SECRETS[0], 0o640, False),
        ("ssl.truststore.certificates=public", 0o644, False),
        ("num.partitions=3", 0o644, False),
    ],
)
def test_a_file_with_secrets_that_everybody_can_read_is_said(served, tmp_path, capsys, caplog, line, mode, is_said):
    config = tmp_path / "server.properties"
    config.write_text(f"num.partitions=1\n{line}\n")
    config.chmod(mode)
    assert run(["serve", "--config", str(config)]) == ExitCode.OK
    said = capsys.readouterr().err + caplog.text  # by whichever of both the process logs
    assert (f"run chmod 600 {config}" in said, line.partition("=")[0] in said) == (is_said, is_said)
    assert "hush" not in said


def test_a_file_that_is_not_there_is_not_found(served, tmp_path, capsys):
    assert run(["serve", "--config", str(tmp_path / "none")]) == ExitCode.NOT_FOUND
    assert "No such file" in capsys.readouterr().err
    assert served == []


def test_a_file_that_is_not_properties_is_a_usage_error(served, tmp_path, capsys):
    config = tmp_path / "c"
    config.write_text("key=\\uZZZZ\n")
    assert run(["serve", "--config", str(config)]) == ExitCode.USAGE
    assert f"{config}:1: a \\u must be followed" in capsys.readouterr().err


def test_all_mistakes_of_a_file_are_said_at_once_with_file_and_line(tmp_path, capsys):
    config = tmp_path / "server.properties"
    config.write_text(
        "# mine\nnum.partitionz=3\nlog.retention.hours=many\nkey=\\uZZZZ\nlog.roll.ms=-4\nssl.keystore.type=X\n"
    )
    assert run(["serve", "--config", str(config), "--set", "log.segment.bytes=1"]) == ExitCode.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        f"{config}:4",
        f"{config}:2",
        f"{config}:3",
        f"{config}:5",
        f"{config}:6",
        "--set",
    ]
    assert "did you mean num.partitions?" in lines[1]


def test_settings_that_do_not_fit_together_are_said_with_their_lines(tmp_path, capsys):
    config = tmp_path / "server.properties"
    config.write_text(
        "\nadvertised.listeners=X://b:1\nmax.connections.per.ip=0\ngroup.max.session.timeout.ms=5\nlog.dirs=/x,/x\n"
    )
    assert run(["serve", "--check", "--config", str(config)]) == ExitCode.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == [f"{config}:{number}" for number in (2, 3, 4, 5)]


def test_what_does_not_fit_together_is_said_beside_what_is_wrong_by_itself(tmp_path, capsys):
    config = tmp_path / "server.properties"
    config.write_text("num.partitions=many\nadvertised.listeners=X://b:1\ngroup.min.session.timeout.ms=x\n")
    assert run(["serve", "--check", "--config", str(config)]) == ExitCode.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == [f"{config}:{number}" for number in (1, 2, 3)]
    assert "advertised.listeners names X" in lines[1]


def test_a_file_that_is_no_text_is_said_with_its_line(tmp_path, capsys):
    config = tmp_path / "c"
    config.write_bytes(b"a=1\nb=\xff\n")
    assert run(["serve", "--config", str(config)]) == ExitCode.USAGE
    assert f"{config}:2: the file is not UTF-8 text" in capsys.readouterr().err


def test_a_cluster_is_asked_for(served):
    assert run(["serve", "--metadata", "embedded:/x", "--brokers", "3"]) == ExitCode.OK
    assert run(["serve", "--processes", "2"]) == ExitCode.OK
    assert [(each.metadata, each.brokers, each.processes) for each in served] == [("embedded:/x", 3, 1), (None, 1, 2)]


def test_brokers_run_in_one_process_or_in_several(served, capsys):
    assert run(["serve", "--brokers", "3", "--processes", "3"]) == ExitCode.USAGE
    assert "not both" in capsys.readouterr().err
    assert served == []


def test_settings_may_come_from_stdin(served, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"num.partitions=4\n")))
    assert run(["serve", "--config", "-"]) == ExitCode.OK
    assert dict(served[0].settings) == {"num.partitions": "4"}


def test_a_store_that_fails_is_said_in_one_line(monkeypatch, capsys):
    def fail(options, **_):
        raise StoreError("no ZooKeeper answers at a:2181")

    monkeypatch.setattr(ottla.server, "serve", fail)
    assert run(["serve"]) == ExitCode.FAILED
    assert capsys.readouterr().err == "ottla: no ZooKeeper answers at a:2181\n"
