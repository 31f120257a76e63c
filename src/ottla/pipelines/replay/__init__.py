"""Replay: a new version of a pipeline over a range of what there was, beside production, and the comparison of both."""
