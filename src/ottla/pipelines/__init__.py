"""Pipelines on Spark, declared in one file: from topics to topics and tables, exactly once."""
