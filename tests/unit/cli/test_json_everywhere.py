"""Whoever runs `ottla` from a program gets JSON from every command that changes or shows something."""

from collections.abc import Iterator

import click

from ottla.cli.main import cli

WITHOUT = {
    "completion": "prints a script for a shell",
    "lookupd": "runs until it is stopped, as serve does",
    "serve": "runs until it is stopped; --log-format json is how its log is written",
}
"""The commands without --json, and why."""

INPUT = {"produce": "the lines that it reads are JSON objects; its result is the exit code"}
"""The commands whose --json is about their input, and why."""


def leaves(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    if group.invoke_without_command:
        yield " ".join(words), group
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


def json_help(command: click.Command) -> str | None:
    found = [each for each in command.params if isinstance(each, click.Option) and "--json" in each.opts]
    return found[0].help if found else None


def test_every_command_that_changes_or_shows_something_has_json() -> None:
    helps = {name: json_help(command) for name, command in leaves(cli)}
    assert len(helps) > 50
    assert {name for name, text in helps.items() if text is None} == WITHOUT.keys()
    assert {name for name, text in helps.items() if text and text.startswith("Lines are")} == INPUT.keys()
