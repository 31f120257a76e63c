"""Where a group is moved to, and that it never lands outside of the log."""

import click
import pytest

from ottla.cli.offset_reset import (
    NewOffset,
    NoCommittedOffsetError,
    OffsetReset,
    PartitionNow,
    ResetTo,
    new_offset,
    parse_datetime_ms,
    parse_duration_ms,
)


@pytest.mark.parametrize(
    ("reset", "offset", "note"),
    [
        (OffsetReset(ResetTo.EARLIEST), 5, None),
        (OffsetReset(ResetTo.LATEST), 20, None),
        (OffsetReset(ResetTo.OFFSET, 5), 5, None),
        (OffsetReset(ResetTo.OFFSET, 20), 20, None),
        (OffsetReset(ResetTo.OFFSET, 4), 5, "offset 4 is before its start: 5 is taken"),
        (OffsetReset(ResetTo.OFFSET, 21), 20, "offset 21 is after its end: 20 is taken"),
        (OffsetReset(ResetTo.SHIFT, 3), 13, None),
        (OffsetReset(ResetTo.SHIFT, -3), 7, None),
        (OffsetReset(ResetTo.SHIFT, -11), 5, "offset -1 is before its start: 5 is taken"),
        (OffsetReset(ResetTo.SHIFT, 11), 20, "offset 21 is after its end: 20 is taken"),
        (OffsetReset(ResetTo.TIMESTAMP, 1_000), 12, None),
    ],
)
def test_an_offset_outside_of_the_log_is_put_to_its_nearer_end_with_a_word(reset, offset, note):
    now = PartitionNow(start=5, end=20, committed=10, at_time=12)
    assert new_offset(reset, now) == NewOffset(offset, note)


def test_a_time_after_the_last_record_is_the_end():
    now = PartitionNow(start=5, end=20, at_time=-1)
    assert new_offset(OffsetReset(ResetTo.TIMESTAMP, 1), now) == NewOffset(
        20, "no record is that young: its end, 20, is taken"
    )


def test_what_was_never_committed_cannot_be_shifted():
    with pytest.raises(NoCommittedOffsetError):
        new_offset(OffsetReset(ResetTo.SHIFT, 1), PartitionNow(start=0, end=1))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("15m", 900_000),
        ("2d", 172_800_000),
        ("PT15M", 900_000),
        ("P1DT2H30M", 95_400_000),
        ("p1d", 86_400_000),
        ("PT1.5S", 1_500),
        ("PT0S", 0),
    ],
)
def test_a_duration_is_iso_8601_or_short(text, milliseconds):
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "15", "-15m", "1w", "P1M", "PT1,5S", "P" + "9" * 5_000 + "D"])
def test_what_is_no_duration_is_a_usage_error(text):
    with pytest.raises(click.BadParameter, match="is not a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    "text", ["2023-11-14T22:13:20", "2023-11-14T22:13:20.000Z", "2023-11-14T23:13:20+01:00", "2023-11-14T23:13:20+0100"]
)
def test_a_time_is_utc_unless_it_says_otherwise(text):
    assert parse_datetime_ms(text) == 1_700_000_000_000


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2023-13-01", "1700000000000", "1969-12-31", "0001-01-01T00:00+14:00"]
)
def test_what_is_no_time_is_a_usage_error(text):
    with pytest.raises(click.BadParameter, match="is not a time"):
        parse_datetime_ms(text)
