"""Places and times are read as people write them."""

from datetime import UTC, datetime

import pytest

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.start_position import StartKind, StartPosition, parse_position, parse_timestamp
from ottla.runtime.clock import ManualClock

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", StartPosition(StartKind.BEGINNING)),
        ("Earliest", StartPosition(StartKind.BEGINNING)),
        ("end", StartPosition(StartKind.END)),
        ("latest", StartPosition(StartKind.END)),
        ("stored", StartPosition(StartKind.STORED)),
        ("17", StartPosition(StartKind.OFFSET, 17)),
        ("-5", StartPosition(StartKind.LAST, 5)),
        ("@1700000000000", StartPosition(StartKind.TIMESTAMP, NOW)),
        ("s@5", StartPosition(StartKind.TIMESTAMP, 5)),
        ("@2023-11-14T22:13:20Z", StartPosition(StartKind.TIMESTAMP, NOW)),
        ("@2023-11-14T23:13:20.5+01:00", StartPosition(StartKind.TIMESTAMP, NOW + 500)),
        ("@-15m", StartPosition(StartKind.TIMESTAMP, NOW - 900_000)),
        ("@-2d", StartPosition(StartKind.TIMESTAMP, NOW - 172_800_000)),
    ],
)
def test_a_position_is_read(text, position):
    assert parse_position(text, ManualClock(NOW)) == position


def test_a_time_without_an_offset_from_utc_is_local():
    local = datetime.fromtimestamp(NOW / 1000, UTC).astimezone().replace(tzinfo=None)
    assert parse_timestamp(local.isoformat(), ManualClock()) == NOW


@pytest.mark.parametrize(
    "text",
    [
        "",
        "begin",
        "1.5",
        "--5",
        "@",
        "@yesterday",
        "@2023-13-01",
        "+5",
        "9" * 19,
        "@" + "9" * 19,
        "@" + "9" * 5000,
        "@0001-01-01",
        "\u0665",
    ],
)
def test_what_is_no_position_is_a_usage_error(text):
    with pytest.raises(CommandError) as refused:
        parse_position(text, ManualClock(NOW))
    assert refused.value.exit_code == ExitCode.USAGE
