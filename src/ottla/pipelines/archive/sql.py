"""SQL over an archive, by DuckDB: each topic is a view of its name."""

from collections.abc import Iterator, Sequence
from typing import Any

from ottla.pipelines.archive.archive import Archive
from ottla.pipelines.archive.manifest import ArchivedTopic, ArchiveError


class Answer:
    """The columns and rows of a query; rows are computed while they are read."""

    def __init__(self, columns: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> None:
        self.columns = columns
        self.rows = rows


def query(archive: Archive, topics: Sequence[ArchivedTopic], statement: str) -> Answer:
    """Run a statement; `"flights.events"` is a view with the columns of the archive.

    Raises ArchiveError where DuckDB is not installed, and with DuckDB's reason for a statement that it refuses.
    """
    try:
        import duckdb
    except ImportError:
        raise ArchiveError("SQL over an archive needs DuckDB: pip install 'ottla[archive]'") from None

    connection = duckdb.connect()
    try:
        # So that the answer to a time is the same on every machine.
        connection.execute("SET TimeZone='UTC'")
        for topic in topics:
            connection.execute(_view(archive, topic))
        answer = connection.execute(statement)
    except duckdb.Error as error:
        raise ArchiveError(
            f"{_line(error)}; the views are {', '.join(_quoted(each.name) for each in topics)}"
        ) from None
    if answer is None or answer.description is None:
        raise ArchiveError(f"{statement!r} is not a query: it gives no rows")

    def rows() -> Iterator[tuple[Any, ...]]:
        try:
            while some := answer.fetchmany(1000):
                yield from some
        except duckdb.Error as error:
            raise ArchiveError(_line(error)) from None

    return Answer([column[0] for column in answer.description], rows())


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _view(archive: Archive, topic: ArchivedTopic) -> str:
    directory = archive.topic_directory(topic.name)
    files = [str(directory / each.file) for part in topic.partitions for each in part.files if each.file is not None]
    columns = 'key, value, topic, "partition", "offset", "timestamp", "timestampType", headers'
    if files:
        names = ", ".join("'" + name.replace("'", "''") + "'" for name in files)
        source = f"SELECT {columns} FROM read_parquet([{names}], hive_partitioning=false)"  # noqa: S608
    else:
        source = (
            'SELECT NULL::BLOB AS key, NULL::BLOB AS value, NULL::VARCHAR AS topic, NULL::INTEGER AS "partition", '
            'NULL::BIGINT AS "offset", NULL::TIMESTAMPTZ AS "timestamp", NULL::INTEGER AS "timestampType", '
            "NULL::STRUCT(key VARCHAR, value BLOB)[] AS headers WHERE false"
        )
    return f"CREATE VIEW {_quoted(topic.name)} AS {source}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
