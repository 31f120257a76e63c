"""Topics kept as Parquet files, with what is needed to have them back: offsets, settings, groups."""
