"""The rules of Redis commands where a broker has an authorizer."""

from ottla.gateways.redis.access import RULES
from ottla.gateways.redis.command_table import command_table


def test_every_command_has_a_rule_and_every_rule_a_command() -> None:
    assert {each.name for each in command_table().values()} == set(RULES)


def test_a_command_with_a_key_needs_something_on_it() -> None:
    for command in command_table().values():
        if command.first_key or "movablekeys" in command.flags:
            assert RULES[command.name].topic, command.name
