"""The file that `ottla pipeline init` writes: a small pipeline that works, with a test in it."""

import re

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
"""The pattern of pipeline names for new files."""

_TEMPLATE = """\
# A pipeline of Ottla on Spark; docs/pipelines.md describes all keys. `ottla pipeline lint FILE` reports mistakes,
# `ottla pipeline test FILE` runs the tests at the end of the file, without a broker, and `ottla pipeline run FILE` runs
# the pipeline until you stop it. FILE is {file}.
name = "{name}"

# The source. Create its topic: ottla topic create {name}.orders
[sources.orders]
topics = ["{name}.orders"]
start = "earliest"
group = "{name}"                        # shows the lag: ottla group describe {name}
format = "json"
schema = "customer string, item string, cents bigint, ordered_at timestamp"

# Invalid rows become dead letters, with the reason.
[[steps]]
name = "checked"
expect = [
  {{ name = "has a customer", check = "customer is not null", on_fail = "dlq" }},
  {{ name = "costs something", check = "cents > 0", on_fail = "dlq" }},
]

# Sources and earlier steps are views with the same names.
[[steps]]
name = "paid"
sql = "select customer, item, cents / 100 as price, ordered_at from checked"

# The output: each micro-batch is one transaction. Create its topic, and that of dead letters, too.
[[sinks]]
name = "prices"
topic = "{name}.prices"
key = "customer"

[dead_letters]
topic = "{name}.dead-letters"

[[tests]]
name = "an order has a price"
given.orders = [{{ customer = "alice", item = "tea", cents = 350, ordered_at = "2026-01-01T09:00:00Z" }}]
expect.paid = [{{ customer = "alice", item = "tea", price = 3.5 }}]
dead_letters = []

[[tests]]
name = "an invalid order is a dead letter"
given.orders = [{{ customer = "bob", item = "air", cents = 0 }}, "this is not JSON"]
expect.paid = []
"""


def new_file(name: str, file: str) -> str:
    """The text of a new pipeline file. `name` matches `NAME`."""
    assert NAME.fullmatch(name), name
    return _TEMPLATE.format(name=name, file=file)
