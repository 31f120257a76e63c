r"""`ssl.principal.mapping.rules`: the name of a client out of the subject of its certificate (KIP-371).

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),.*$/$1/L, DEFAULT
         pattern                      | |      L: in lower case, U: in upper case
                                      replacement, $1 for the first group

The first rule whose pattern is the whole subject is used; DEFAULT is the subject as it is.
"""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ottla.settings.definition import InvalidSettingError, shortened

_PART: Final = r"((?:\\.|[^\\/])*)"
_RULE: Final = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?))\s*(?:,|$)")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)", re.DOTALL)


class MappingRule(Struct, frozen=True):
    """One rule. Without a pattern it is DEFAULT."""

    pattern: "re.Pattern[str] | None" = None
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """The name, or None where the rule is not for this subject."""
        if self.pattern is None:
            return subject
        match = self.pattern.fullmatch(subject)
        if match is None:
            return None

        def put(reference: "re.Match[str]") -> str:
            if reference[1] is not None:
                return reference[1]
            number = int(reference[2])
            return match[number] or "" if number <= match.re.groups else reference[0]

        name = _REFERENCE.sub(put, self.replacement)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


def parse_mapping_rules(text: str) -> tuple[MappingRule, ...]:
    """The rules of the setting. Raises InvalidSettingError.

    >>> rules = parse_mapping_rules("RULE:^CN=(.*?),.*$/$1/L,DEFAULT")
    >>> mapped_name(rules, "CN=Duke,O=Sun"), mapped_name(rules, "O=Sun")
    ('duke', 'O=Sun')
    """
    rules = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise InvalidSettingError(
                f"ssl.principal.mapping.rules: {shortened(text[position:])!r} is no rule: write "
                "RULE:pattern/replacement/, or DEFAULT"
            )
        position = match.end()
        default, pattern, replacement, case = match.groups()
        try:
            rules.append(MappingRule() if default else MappingRule(re.compile(pattern), replacement, case))
        except re.error as error:
            raise InvalidSettingError(
                f"ssl.principal.mapping.rules: {shortened(pattern)!r} is no pattern: {error}"
            ) from error
    return tuple(rules)


def mapped_name(rules: Sequence[MappingRule], subject: str) -> str | None:
    """The name of a client with this subject; None where no rule is for it, and the client is nobody."""
    return next((name for rule in rules if (name := rule.apply(subject)) is not None), None)
