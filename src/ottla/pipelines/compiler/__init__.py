"""Compiles a pipeline file to DataFrames: the same for streams, batches and the rows of a test."""
