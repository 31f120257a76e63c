"""The data source `ottla`: what Spark asks first, whatever the role.

Spark starts a process for each of its questions. So each role imports what it needs, above all the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyspark_ottla.options import OptionError
from pyspark_ottla.plain_errors import plain_errors

if TYPE_CHECKING:
    from pyspark_ottla.batch_reader import OttlaReader
    from pyspark_ottla.stream_reader import OttlaStreamReader
    from pyspark_ottla.writer import OttlaStreamWriter, OttlaWriter


class OttlaDataSource(DataSource):
    """Topics of an Ottla, or any Kafka, broker as DataFrames, for batches and streams, both ways.

    It needs no JAR: Spark's executors connect to the brokers with Ottla's Python client.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format: `ottla`."""
        return "ottla"

    @plain_errors()
    def schema(self) -> StructType:
        """The columns of a read."""
        from pyspark_ottla.read_options import column_options
        from pyspark_ottla.record_columns import spark_schema
        from pyspark_ottla.value_format import value_format_of

        options = column_options(self.options)
        # Here and not in the readers: Spark asks for the columns once, and for readers in several processes.
        options.warn_of_ignored()
        return spark_schema(
            include_headers=options.boolean("includeHeaders", default=False), value_format=value_format_of(options)
        )

    @plain_errors()
    def reader(self, schema: StructType) -> OttlaReader:
        """For `spark.read`."""
        from pyspark_ottla.batch_reader import OttlaFilteringReader, OttlaReader
        from pyspark_ottla.read_options import ReadOptions

        self._require_own(schema)
        options = ReadOptions.of(self.options, streaming=False)
        return OttlaFilteringReader(options) if options.pushdown else OttlaReader(options)

    @plain_errors()
    def streamReader(self, schema: StructType) -> OttlaStreamReader:  # noqa: N802
        """For `spark.readStream`."""
        from pyspark_ottla.read_options import ReadOptions
        from pyspark_ottla.stream_reader import OttlaStreamReader

        self._require_own(schema)
        return OttlaStreamReader(ReadOptions.of(self.options, streaming=True))

    @plain_errors()
    def writer(self, schema: StructType, overwrite: bool) -> OttlaWriter:
        """For `df.write`."""
        from pyspark_ottla.write_columns import WriteColumns
        from pyspark_ottla.write_options import WriteOptions
        from pyspark_ottla.writer import OttlaWriter

        if overwrite:
            raise OptionError("a log can only be added to: write with mode('append')")
        options = WriteOptions.of(self.options)
        return OttlaWriter(options, WriteColumns(schema, options.topic))

    @plain_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> OttlaStreamWriter:  # noqa: N802
        """For `df.writeStream`; in every output mode the rows are added to the log."""
        from pyspark_ottla.write_columns import WriteColumns
        from pyspark_ottla.write_options import WriteOptions
        from pyspark_ottla.writer import OttlaStreamWriter

        options = WriteOptions.of(self.options)
        return OttlaStreamWriter(options, WriteColumns(schema, options.topic))

    def _require_own(self, schema: StructType) -> None:
        if schema != self.schema():
            raise OptionError("the columns of this source are fixed: leave out .schema(...) and select what you need")
