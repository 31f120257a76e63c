"""Two collections of rows are compared by key as a model that has both in memory compares them."""

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.replay.difference import EXAMPLE_BYTES, Comparison, Difference, Example, Row

_ROWS = st.lists(
    st.tuples(st.none() | st.binary(max_size=1), st.none() | st.sampled_from([b"", b"a", b"b"])), max_size=20
)


def compare(here: list[Row], there: list[Row], **settings: bool) -> Difference:
    with tempfile.TemporaryDirectory() as directory, Comparison(Path(directory), **settings) as comparison:
        comparison.add("here", here)
        comparison.add("there", there)
        return comparison.compare()


@given(_ROWS, _ROWS)
def test_the_rows_of_a_key_are_equal_as_often_as_they_are_there_in_any_order(here: list[Row], there: list[Row]):
    found = compare(here, there)
    sides = [{key: Counter(row for row in rows if row[0] == key) for key, _ in rows} for rows in (here, there)]
    one, two = sides
    assert found.equal == sum(one[key] == two[key] for key in one.keys() & two.keys())
    assert found.different == sum(one[key] != two[key] for key in one.keys() & two.keys())
    assert (found.only_here, found.only_there) == (len(one.keys() - two.keys()), len(two.keys() - one.keys()))
    assert (found.rows_here, found.rows_there) == (len(here), len(there))
    assert found.is_empty == (Counter(here) == Counter(there))


@given(_ROWS, _ROWS)
def test_with_newest_the_last_row_of_each_key_counts_and_a_tombstone_is_none(here: list[Row], there: list[Row]):
    one, two = ({key: value for key, value in dict(rows).items() if value is not None} for rows in (here, there))
    found = compare(here, there, newest=True)
    assert found.different == sum(one[key] != two[key] for key in one.keys() & two.keys())
    assert found.is_empty == (one == two)


def test_values_that_differ_behind_what_is_shown_differ_and_examples_show_both():
    long = b"x" * EXAMPLE_BYTES
    found = compare([(b"k", long + b"1"), (b"a", None)], [(b"k", long + b"2"), (b"b", b"")])
    assert found.examples == {
        "different": [Example(b"k", long, long)],
        "only_here": [Example(b"a", None, None)],
        "only_there": [Example(b"b", None, b"")],
    }


def test_only_so_many_examples_are_kept_and_all_are_counted():
    found = compare([(b"%d" % number, b"") for number in range(100)], [])
    assert found.only_here == 100
    assert len(found.examples["only_here"]) == 10
