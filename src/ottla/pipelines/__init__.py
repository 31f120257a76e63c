"""Pipelines on Spark, declared in one file or in Python: from topics to topics and tables, exactly once."""

from ottla.pipelines.spec.declare import Pipeline, pipeline

__all__ = ["Pipeline", "pipeline"]
