"""Dead letters: records that a pipeline refused, kept in a topic with where they came from and why."""
