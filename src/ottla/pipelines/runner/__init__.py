"""A pipeline that runs: a query for each sink, its checkpoint, and what is done when it fails."""
