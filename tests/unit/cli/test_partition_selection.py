"""Topics and partitions are read as people write them."""

import click
import pytest

from ottla.cli.partition_selection import Selection, parse_selection


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        ("events", Selection("events", None)),
        ("events:0", Selection("events", (0,))),
        ("events:3,0-2,1", Selection("events", (3, 0, 1, 2))),
    ],
)
def test_a_topic_is_all_its_partitions_or_those_that_are_named(text, selection):
    assert parse_selection(text) == selection


@pytest.mark.parametrize(
    "text", ["", ":", "events:", ":0", "events:x", "events:-1", "events:2-1", "events:0,", "events:0-2147483647", "e:²"]
)
def test_what_names_no_partitions_is_a_usage_error(text):
    with pytest.raises(click.BadParameter, match="is not"):
        parse_selection(text)
