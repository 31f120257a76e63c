"""The settings of a subscription to the metrics of clients (KIP-714): which metrics, how often, of which clients."""

import re
from collections.abc import Mapping
from typing import Final

from ottla.settings.definition import SettingDefinition, SettingTable, UpdateMode, setting_table
from ottla.settings.validators import Range, Validator
from ottla.settings.value import SettingType, SettingValue, parse_list

INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000

SELECTORS: Final = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a client may be matched by."""

PATTERN_LENGTH_MAX: Final = 1_000
"""Characters of one pattern. Only those who run the cluster set patterns; clients choose what is matched."""


class MatchPatterns:
    """Allows a list of SELECTOR=PATTERN, with regular expressions."""

    allowed = " of SELECTOR=PATTERN"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, tuple)
        try:
            parse_match(value)
        except ValueError as error:
            return str(error)
        return None


def parse_match(entries: tuple[str, ...]) -> Mapping[str, re.Pattern[str]]:
    """Patterns by selector; a client must match each of them, whole. Raises ValueError with the reason.

    >>> parse_match(("client_id=etl.*",))["client_id"].pattern
    'etl.*'
    """
    patterns: dict[str, re.Pattern[str]] = {}
    for entry in entries:
        selector, sign, pattern = (part.strip() for part in entry.partition("="))
        if not sign or selector not in SELECTORS:
            raise ValueError(
                "has an illegal client matching pattern: it must be SELECTOR=PATTERN with one of "
                f"{', '.join(SELECTORS)}, not {entry[:100]!r}"
            )
        if len(pattern) > PATTERN_LENGTH_MAX:
            raise ValueError(f"must have patterns of at most {PATTERN_LENGTH_MAX} characters")
        try:
            patterns[selector] = re.compile(pattern)
        except (re.error, OverflowError) as error:
            raise ValueError(
                "has an illegal client matching pattern: it must have regular expressions, and "
                f"{pattern[:100]!r} is none: {error}"
            ) from None
    return patterns


def match_of(settings: Mapping[str, str]) -> Mapping[str, re.Pattern[str]]:
    """The patterns of a subscription that sets these."""
    return parse_match(parse_list(settings.get("match", "")))


def _setting(
    name: str, kind: SettingType, default: str, validator: Validator | None, documentation: str
) -> SettingDefinition:
    return SettingDefinition(
        name=name,
        type=kind,
        default=default,
        documentation=documentation,
        validator=validator,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )


CLIENT_METRICS_SETTINGS: Final[SettingTable] = setting_table(
    (
        _setting(
            "interval.ms",
            SettingType.INT,
            "300000",
            Range(INTERVAL_MS_MIN, INTERVAL_MS_MAX),
            "The interval at which clients push their metrics.",
        ),
        _setting(
            "match",
            SettingType.LIST,
            "",
            MatchPatterns(),
            "Which clients push: those that match each SELECTOR=PATTERN, whole, with regular expressions; all of them "
            "when there is none. Selectors are " + ", ".join(SELECTORS) + ".",
        ),
        _setting(
            "metrics",
            SettingType.LIST,
            "",
            None,
            "The metrics to push: all whose names begin with one of these prefixes; * means all.",
        ),
    )
)
