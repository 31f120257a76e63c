"""Two collections of rows are compared by key as a model that has both in memory compares them."""

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.replay.difference import EXAMPLE_BYTES, Comparison, Difference, Example, Row, Side

_ROWS = st.lists(
    st.tuples(st.none() | st.binary(max_size=1), st.none() | st.sampled_from([b"", b"a", b"b"])), max_size=20
)


def compare(here: list[Row], there: list[Row], cut: Side | None = None, **settings: bool) -> Difference:
    with tempfile.TemporaryDirectory() as directory, Comparison(Path(directory), **settings) as comparison:
        comparison.add("here", here)
        comparison.add("there", there)
        if cut is not None:
            comparison.cut(cut)
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


@given(_ROWS, st.integers(0, 20), st.booleans(), st.booleans())
def test_what_went_with_the_beginning_of_a_log_is_unknown_and_no_difference(
    rows: list[Row], gone: int, here_is_cut: bool, newest: bool
):
    left = rows[gone:]
    sides = (left, rows) if here_is_cut else (rows, left)
    found = compare(*sides, cut="here" if here_is_cut else "there", newest=newest)
    assert (found.only_here, found.only_there, found.different) == (0, 0, 0)
    changed = compare(*sides, newest=newest)
    assert (found.unknown, found.equal) == (changed.only_here + changed.only_there + changed.different, changed.equal)
    assert found.is_empty == (found.unknown == 0)


def test_a_cut_side_still_has_what_the_other_has_not():
    found = compare([(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")], cut="here")
    assert (found.only_here, found.different, found.unknown) == (1, 1, 0)


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
        "unknown": [],
    }


def test_only_so_many_examples_are_kept_and_all_are_counted():
    found = compare([(b"%d" % number, b"") for number in range(100)], [])
    assert found.only_here == 100
    assert len(found.examples["only_here"]) == 10
