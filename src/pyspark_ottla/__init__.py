"""The Spark data source `format("ottla")`: topics as DataFrames, without a JAR.

Spark finds packages whose names begin with `pyspark_` by itself and takes their `DefaultSource`; nothing is registered.
See docs/spark.md.
"""

from pyspark_ottla.lag import lag
from pyspark_ottla.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource", "lag"]
