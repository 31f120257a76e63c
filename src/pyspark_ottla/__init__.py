"""The Spark data source `format("ottla")`."""
