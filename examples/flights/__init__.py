"""A year of flights as a stream: a million events, a pipeline over them, its broker killed, its result checked.

Read `pipeline.toml` first: it is the part a user would write. The rest brings the events into the broker, kills it on
the way, and checks what came out. Run it with `make run`, or `python -m examples.flights --help`.
"""
