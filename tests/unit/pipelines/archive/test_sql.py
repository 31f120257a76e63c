"""What is wrong with a query of an archive is one line."""

from pathlib import Path

import pytest

from ottla.pipelines.archive import running
from ottla.pipelines.archive.archive import Archive
from ottla.pipelines.archive.manifest import ArchiveError
from ottla.pipelines.archive.sql import query
from ottla.runtime.clock import ManualClock
from tests.unit.pipelines.archive.model_cluster import ModelCluster


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    cluster = ModelCluster()
    cluster.append((0, b"k", b"v", []), (0, b"k", b"7", []))
    made = Archive.open_or_create(str(tmp_path / "archive"), cluster.cluster_id)
    with made.locked():
        running.run(made, cluster, (), ManualClock(5))
    return made


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("", "'' is not a query: it gives no rows"),
        ("-- nothing", "'-- nothing' is not a query"),
        ("selct 1", 'the views are "t"'),
        ("select cast(decode(value) as int) from t", "Could not convert string 'v' to INT32"),
    ],
)
def test_what_is_no_query_or_cannot_be_computed_is_said_in_a_line(archive: Archive, statement: str, said: str):
    with pytest.raises(ArchiveError) as refusal:
        [*query(archive, archive.topics(), statement).rows]
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_rows_come_out(archive: Archive):
    answer = query(archive, archive.topics(), "select decode(value) as v from t order by 1")
    assert (answer.columns, [*answer.rows]) == (["v"], [("7",), ("v",)])
