"""A year of flights as a stream: a broker, a million events, a Spark pipeline, its result checked.

Read `pipeline.py` first: it is the part a user would write. The rest brings the events into the broker and checks what
came out. Run it with `make run`, or `python -m examples.flights --help`.
"""
