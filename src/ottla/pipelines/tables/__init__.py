"""Tables for exactly-once writes from `foreachBatch`: Parquet with a manifest, and Delta.

```python
sink = ParquetSink("lake/delays", ["carrier"], query_id=query_id)
events.writeStream.foreachBatch(lambda batch, number: sink.write(batch, number)).start()
```
"""

from ottla.pipelines.tables.delta_sink import DeltaSink
from ottla.pipelines.tables.parquet_sink import ParquetSink
from ottla.pipelines.tables.parquet_table import ParquetTable
from ottla.pipelines.tables.table_sink import Compacted, TableError, TableSink, Written

__all__ = ["Compacted", "DeltaSink", "ParquetSink", "ParquetTable", "TableError", "TableSink", "Written"]
