"""Mistakes on the command line are said in one line, with exit code 2, and nothing is done."""

import subprocess
import sys

import pytest

from ottla.cli.exit_codes import ExitCode
from ottla.cli.main import run

MISTAKES = [
    ["nosuch"],
    ["topic", "crate", "t"],
    ["topic", "create"],
    ["topic", "create", "t", "--partitions", "0"],
    ["topic", "create", "t", "--partitions", "2147483648"],
    ["topic", "alter", "t", "--partitions", "99999999999999999999"],
    ["topic", "create", "t", "--config", "no-equals-sign"],
    ["topic", "alter", "t"],
    ["topic", "list", "("],
    ["topic", "list", "-X", "no-equals-sign"],
    ["topic", "list", "-X", "no.such=1"],
    ["topic", "list", "-X", "request.timeout.ms=soon"],
    ["topic", "list", "-X", "security.providers=x"],
    ["topic", "list", "-X", "acks=all"],
    ["produce", "t", "-X", "acks=2"],
    ["perf", "produce", "t", "-n", "0"],
    ["perf", "produce", "t", "-X", "compression.type=brotli"],
    ["quota", "set", "producer_byte_rate=1"],
    ["quota", "set", "--user", "u", "producer_byte_rate=fast"],
    ["quota", "set", "--user", "u", "--user-default", "producer_byte_rate=1"],
    ["quota", "delete", "--user", "u"],
    ["acl", "add", "--principal", "User:a", "--topic", "t", "--operation", "read", "--host", "localhost"],
    ["acl", "add", "--principal", "User:a", "--topic", "t", "--operation", "read", "--host", "10.0.0.0/8", "--deny"],
    ["acl", "add", "--principal", "User:a", "--group", "g", "--operation", "read", "--operation", "write"],
    ["acl", "add", "--principal", "User:a", "--group", "g", "--producer"],
    ["acl", "add", "--principal", "User:a", "--cluster", "--operation", "read"],
    ["feature", "set"],
    ["feature", "set", "group.version=new"],
    ["config", "list", "--group", ""],
    ["config", "list", "--group", "g", "--client-metrics", "s"],
    ["produce"],
    ["produce", "t", "--json", "-K", ":"],
    ["produce", "t", "--whole-files"],
    ["produce", "t", "--acks", "2"],
    ["produce", "t", "-K", ""],
    ["produce", "t", "-D", ""],
    ["produce", "t", "--compression", "brotli"],
    ["produce", "t", "-H", "=v"],
    ["consume", "t", "--offset", "soon"],
    ["consume", "t", "--offset", "stored"],
    ["consume", "t", "--offset", "5", "--from-beginning"],
    ["consume", "t", "--group", "g", "--partition", "1"],
    ["consume", "t", "--group", "g", "--offset", "5"],
    ["consume", "t", "--group", "g", "--until", "5"],
    ["consume", "t", "--json", "-f", "%v"],
    ["consume", "t", "-f", "%x"],
    ["consume", "t", "-p", "x"],
    ["consume", "t", "-p", "4-2"],
    ["consume", "t", "-c", "0"],
    ["consume", "t", "-b", "a:b"],
    ["topic", "list", "-b", ""],
    ["topic", "offsets"],
    ["topic", "offsets", "t", "--time", "soon"],
    ["topic", "delete-records"],
    ["topic", "delete-records", "t:0"],
    ["topic", "delete-records", ":0=1"],
    ["topic", "delete-records", "t:0=-2"],
    ["topic", "delete-records", "t:0=1,0=2"],
    ["topic", "delete-records", "t:0=9223372036854775808"],
    ["group", "describe"],
    ["group", "delete"],
    ["group", "delete-offsets", "g"],
    ["group", "delete-offsets", "g", "t:x"],
    ["group", "reset", "g", "--to-latest"],
    ["group", "reset", "g", "t"],
    ["group", "reset", "g", "t", "--all-topics", "--to-latest"],
    ["group", "reset", "g", "t", "--to-latest", "--to-earliest"],
    ["group", "reset", "g", "t", "--to-offset", "-1"],
    ["group", "reset", "g", "t", "--to-datetime", "soon"],
    ["group", "reset", "g", "t", "--by-duration", "1w"],
    ["group", "reset", "g", "t:1-0", "--shift-by", "-5"],
    ["group", "seek", "g"],
    ["group", "seek", "g", "t"],
    ["group", "seek", "g", "t:0"],
    ["group", "seek", "g", "t:0=-1"],
    ["group", "seek", "g", ":0=1"],
    ["group", "seek", "g", "t:0=1,0=2"],
    ["group", "seek", "g", "t:0=1", "t:0=1"],
    ["group", "seek", "g", "t:0=9223372036854775808"],
    ["config", "list"],
    ["config", "list", "--topic", "t", "--broker", "1"],
    ["config", "list", "--broker", "one"],
    ["config", "get", "--topic", "t"],
    ["config", "set", "--topic", "t"],
    ["config", "set", "--topic", "t", "retention.ms"],
    ["config", "delete", "retention.ms"],
    ["cluster", "extra"],
    ["log", "dump"],
    ["log", "verify"],
    ["serve", "--kafka", "nowhere:port"],
    ["serve", "--advertise", ":9092"],
    ["serve", "--set", "key"],
]


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_mistake_is_said_in_one_line(arguments, capsys):
    assert run(arguments) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ottla: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "group", [[], ["topic"], ["group"], ["config"], ["quota"], ["feature"], ["perf"], ["log"]], ids=" ".join
)
def test_a_group_without_a_command_shows_its_help(group, capsys):
    assert run(group) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Commands:" in captured.err


@pytest.mark.parametrize(
    "arguments",
    [["topic", "list"], ["topic", "describe", "t"], ["group", "list"], ["consume", "t"], ["produce", "t", "/dev/null"]],
    ids=" ".join,
)
def test_no_broker_is_exit_code_3_and_says_how_to_start_one(arguments, capsys):
    assert run([*arguments, "--bootstrap", "127.0.0.1:1"]) == ExitCode.UNREACHABLE
    assert capsys.readouterr().err == (
        "ottla: cannot reach a broker at 127.0.0.1:1: connection refused; is it running? start one with `ottla serve`\n"
    )


def test_where_the_broker_is_may_stand_in_the_environment(capsys, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "127.0.0.1:2")
    assert run(["topic", "list"]) == ExitCode.UNREACHABLE
    assert "127.0.0.1:2" in capsys.readouterr().err


COMMANDS = [
    [], ["serve"], ["topic"], ["topic", "create"], ["topic", "list"], ["topic", "describe"], ["topic", "alter"],
    ["topic", "delete"], ["topic", "offsets"], ["topic", "delete-records"], ["produce"], ["consume"],
    ["group"], ["group", "list"], ["group", "describe"],
    ["group", "delete"], ["group", "delete-offsets"], ["group", "reset"], ["group", "seek"],
    ["config"], ["config", "list"], ["config", "get"], ["config", "set"], ["config", "delete"], ["cluster"],
    ["quota"], ["quota", "list"], ["quota", "set"], ["quota", "delete"], ["feature"], ["feature", "list"],
    ["feature", "set"], ["perf"], ["perf", "produce"], ["perf", "consume"], ["perf", "latency"],
    ["log"], ["log", "dump"],
]  # fmt: skip
GROUPS = [[], ["topic"], ["group"], ["config"], ["quota"], ["feature"], ["perf"], ["log"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words) or "ottla")
def test_every_command_has_help_and_every_leaf_an_example(command, capsys):
    assert run([*command, "--help"]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert f"Usage: {' '.join(['ottla', *command])} " in shown
    assert command in GROUPS or "Example" in shown


def test_the_version_is_shown(capsys):
    assert run(["--version"]) == ExitCode.OK
    assert capsys.readouterr().out.startswith("ottla ")


@pytest.mark.slow
def test_help_and_version_import_neither_client_nor_server():
    """So they answer at once."""
    code = (
        "import sys\n"
        "from ottla.cli.main import run\n"
        "run(['--help'])\n"
        "heavy = {'asyncio', 'rich', 'uvloop', 'ottla.client', 'ottla.native', 'ottla.server'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
