"""What the user is told when a command fails: one line on stderr, an exit code, and never a traceback unasked."""

import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

import click

from ottla.cli.exit_codes import ExitCode
from ottla.model.printable import printable
from ottla.runtime.exhaustion import advice

_REPORT = "this is a bug: please report it with the output of the same command under `ottla --debug`"


class CommandError(Exception):
    """A command cannot go on. The message is one line: what is wrong, and what to do."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class MistakesError(CommandError):
    """What was given has mistakes; nothing was done. All of them, a line each: where it is, and what to do."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines), ExitCode.USAGE)
        self.lines = tuple(lines)


def report(error: BaseException, *, debug: bool) -> ExitCode:
    """Say what went wrong, unless the user knows or nobody reads it, and return the exit code."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return ExitCode.INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        text, code = error.format_message(), ExitCode.USAGE
    else:
        lines, code = explain(error)
        text = "\n".join(f"ottla: {printable(each)}" for each in lines)
    with suppress(OSError):
        if debug:
            traceback.print_exception(error)
        print(text, file=sys.stderr)
    return code


def explain(error: BaseException) -> tuple[Sequence[str], ExitCode]:
    """What an error is for people, in lines of their own, and the exit code."""
    line, code = _explain(error)
    return error.lines if isinstance(error, MistakesError) else (line,), code


def _explain(error: BaseException) -> tuple[str, ExitCode]:
    if isinstance(error, click.ClickException):
        return _explain_usage(error), ExitCode.USAGE
    if isinstance(error, CommandError):
        return str(error), error.exit_code
    if isinstance(error, MemoryError):
        return advice(error) or "", ExitCode.FAILED
    if isinstance(error, OSError):
        return _explain_os_error(error)
    return _explain_client_error(error) or (f"{type(error).__name__}: {error}; {_REPORT}", ExitCode.FAILED)


def _explain_usage(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message}; see `{error.ctx.command_path} --help`"
    return message


def _explain_os_error(error: OSError) -> tuple[str, ExitCode]:
    what = error.strerror or str(error)
    line = f"{error.filename}: {what}" if error.filename is not None else what
    what_to_do = advice(error)
    if what_to_do is not None:
        line = f"{line}; {what_to_do}"
    return line, ExitCode.NOT_FOUND if isinstance(error, FileNotFoundError) else ExitCode.FAILED


def _explain_client_error(error: BaseException) -> tuple[str, ExitCode] | None:
    from ottla.client import errors
    from ottla.model.error_code import ErrorCode
    from ottla.model.errors import ApiError, InvalidInputError

    if isinstance(error, errors.InvalidOptionError):
        return str(error), ExitCode.USAGE
    if isinstance(error, errors.BrokerUnreachableError):
        return str(error), ExitCode.UNREACHABLE
    if isinstance(error, errors.TopicNotFoundError):
        return f"{error}; `ottla topic list` shows those that do", ExitCode.NOT_FOUND
    if isinstance(error, errors.GroupNotFoundError):
        if error.group_type:
            return f"{error}; use the tool for its type, such as kafka-{error.group_type}-groups.sh", ExitCode.NOT_FOUND
        return f"{error}; `ottla group list` shows those that do", ExitCode.NOT_FOUND
    if isinstance(error, errors.BrokerError) and error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return f"{error}; `ottla transaction list` shows all", ExitCode.NOT_FOUND
    if isinstance(error, errors.ClientError | ApiError | InvalidInputError):
        return str(error), ExitCode.FAILED
    return None
