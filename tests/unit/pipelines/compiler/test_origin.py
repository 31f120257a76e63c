"""Which queries carry along where their rows came from."""

import pytest

from ottla.pipelines.compiler.origin import with_origin


@pytest.mark.parametrize(
    ("sql", "carrying"),
    [
        ("select a, b from events", "select _record, a, b from events"),
        ("  SELECT\n  a from events where a > 1", "  SELECT\n  _record, a from events where a > 1"),
        ("select distinct a from events", None),
        ("select count(*) n from events group by all", None),
        ("select a from x union all select a from y", None),
        ("with t as (select 1) select * from t", None),
        ("select /*+ broadcast(t) */ a from t", None),
        ("from events select a", None),
    ],
)
def test_a_query_of_plain_rows_carries_the_record_and_another_stays_as_it_is(sql, carrying):
    assert with_origin(sql) == carrying
