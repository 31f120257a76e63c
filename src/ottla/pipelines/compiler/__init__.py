"""What a pipeline file says, as DataFrames: the same for a stream, a batch and the rows of a test."""
