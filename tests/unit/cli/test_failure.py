"""Whatever goes wrong, the user reads one line; a traceback comes only when asked for."""

import subprocess
import sys

import click
import pytest

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError, report
from ottla.client.errors import (
    BrokerUnreachableError,
    ConnectionLostError,
    GroupNotFoundError,
    TopicNotFoundError,
    broker_error,
)
from ottla.model.errors import InvalidInputError

CASES = [
    (CommandError("it is so", ExitCode.NOT_FOUND), ExitCode.NOT_FOUND, "it is so"),
    (BrokerUnreachableError("nobody there"), ExitCode.UNREACHABLE, "nobody there"),
    (TopicNotFoundError("t"), ExitCode.NOT_FOUND, "topic 't' does not exist; `ottla topic list`"),
    (GroupNotFoundError("g"), ExitCode.NOT_FOUND, "consumer group 'g' does not exist; `ottla group list`"),
    (broker_error(36, "topic 't' was not created", "it exists"), ExitCode.FAILED, "was not created: it exists"),
    (ConnectionLostError("gone"), ExitCode.FAILED, "gone"),
    (InvalidInputError("not a batch"), ExitCode.FAILED, "not a batch"),
    (FileNotFoundError(2, "No such file or directory", "x"), ExitCode.NOT_FOUND, "x: No such file"),
    (PermissionError(13, "Permission denied", "x"), ExitCode.FAILED, "x: Permission denied"),
    (OSError(24, "Too many open files", "x"), ExitCode.FAILED, "x: Too many open files; this process may open no more"),
    (MemoryError(), ExitCode.FAILED, "out of memory; give it more"),
    (click.UsageError("Bad words."), ExitCode.USAGE, "bad words"),
]


@pytest.mark.parametrize(("error", "code", "says"), CASES, ids=lambda case: type(case).__name__)
def test_an_error_is_one_line_and_an_exit_code(error, code, says, capsys):
    assert report(error, debug=False) == code
    shown = capsys.readouterr().err
    assert shown.startswith("ottla: ")
    assert says in shown
    assert shown.count("\n") == 1


def test_a_bug_says_where_to_report_it(capsys):
    assert report(ZeroDivisionError("division by zero"), debug=False) == ExitCode.FAILED
    shown = capsys.readouterr().err
    assert "this is a bug: please report it" in shown
    assert "Traceback" not in shown


def test_a_traceback_is_shown_when_asked_for(capsys):
    try:
        raise ZeroDivisionError
    except ZeroDivisionError as error:
        report(error, debug=True)
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), click.Abort()])
def test_ctrl_c_is_quiet(interrupt, capsys):
    assert report(interrupt, debug=False) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == ""


INTERRUPTED = """
import signal
from ottla.runtime import garbage

garbage.look_less_often = lambda: signal.raise_signal(signal.SIGINT)
from ottla.cli import main

main()
"""


def test_ctrl_c_while_the_command_line_is_imported_is_quiet():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


def test_what_a_stranger_wrote_does_not_steer_the_terminal(capsys):
    report(InvalidInputError("version \x1b[2J\n\u202e is not known"), debug=False)
    assert capsys.readouterr().err == "ottla: version \\u001b[2J\\n\\u202e is not known\n"
