"""Archives: topics as Parquet files, with offsets, settings and groups, so that they can be restored."""
