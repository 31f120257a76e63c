"""A star in the expressions of a sink means the columns of the row, not those that go with it."""

import pytest

from ottla.pipelines.compiler.records import without_origin


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("to_json(struct(*))", "to_json(struct(* except (_record)))"),
        ("struct( *, 1)", "struct( * except (_record), 1)"),
        ("struct(1, *)", "struct(1, * except (_record))"),
        ("struct(* except (a))", "struct(* except (_record, a))"),
        ("a * (b) * c", "a * (b) * c"),
        ("concat('(*', a, \"(*\", `(*`)", "concat('(*', a, \"(*\", `(*`)"),
        (r"concat('\'(*')", r"concat('\'(*')"),
    ],
)
def test_a_star_leaves_out_our_column(written, read):
    assert without_origin(written) == read
