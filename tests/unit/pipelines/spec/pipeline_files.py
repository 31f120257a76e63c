"""Files of pipelines for tests: a whole one, and the same in YAML."""

WHOLE = """\
name = "flights"
bootstrap = "127.0.0.1:9092"
trigger = "2 seconds"

[sources.events]
topics = ["flights.events"]
start = "earliest"
group = "flights"
format = "json"
schema = "flight string, carrier string, delay_min int, scheduled_at timestamp"
max_records = 200_000
options = { "kafka.fetch.max.bytes" = "8388608" }

[sources.airlines]
topics = ["flights.airlines"]
table = true
format = "json"
key = "code"
schema = "name string"

[[steps]]
name = "flown"
sql = "select * from events where flight is not null"

[[steps]]
name = "sane"
expect = [{ name = "delay", check = "delay_min between -120 and 2000", on_fail = "dlq" }]

[[steps]]
name = "once"
deduplicate = { by = ["flight"], within = "1 day", time = "scheduled_at" }

[[steps]]
name = "named"
join = { with = "airlines", on = "once.carrier = airlines.code", how = "left" }

[[steps]]
name = "hourly"
[steps.window]
time = "scheduled_at"
every = "1 hour"
late = "6 hours"
by = ["carrier"]
aggregate = { n = "count(*)", delay = "avg(delay_min)" }

[[sinks]]
name = "delays"
input = "hourly"
topic = "flights.delays"
key = "carrier"

[[sinks]]
name = "lake"
input = "named"
parquet = "lake/delays"
partition_by = ["carrier"]
compact = { every = "1 hour", target = "128 MB" }

[dead_letters]
topic = "flights.dead-letters"

[audit]
topic = "flights.audit"
window = "1 minute"

[[tests]]
name = "a late flight"
given.events = [{ flight = "UA1", carrier = "UA", delay_min = 5 }, "no json"]
expect.hourly = [{ carrier = "UA", n = 1 }]
dead_letters = []
"""

WHOLE_YAML = """\
name: flights
bootstrap: 127.0.0.1:9092
trigger: 2 seconds
sources:
  events:
    topics: [flights.events]
    start: earliest
    group: flights
    format: json
    schema: "flight string, carrier string, delay_min int, scheduled_at timestamp"
    max_records: 200_000
    options: { kafka.fetch.max.bytes: "8388608" }
  airlines:
    topics: [flights.airlines]
    table: true
    format: json
    key: code
    schema: name string
steps:
  - name: flown
    sql: select * from events where flight is not null
  - name: sane
    expect:
      - { name: delay, check: delay_min between -120 and 2000, on_fail: dlq }
  - name: once
    deduplicate: { by: [flight], within: 1 day, time: scheduled_at }
  - name: named
    join: { with: airlines, on: once.carrier = airlines.code, how: left }
  - name: hourly
    window:
      time: scheduled_at
      every: 1 hour
      late: 6 hours
      by: [carrier]
      aggregate: { n: count(*), delay: avg(delay_min) }
sinks:
  - name: delays
    input: hourly
    topic: flights.delays
    key: carrier
  - name: lake
    input: named
    parquet: lake/delays
    partition_by: [carrier]
    compact: { every: 1 hour, target: 128 MB }
dead_letters: { topic: flights.dead-letters }
audit: { topic: flights.audit, window: 1 minute }
tests:
  - name: a late flight
    given:
      events: [{ flight: UA1, carrier: UA, delay_min: 5 }, no json]
    expect:
      hourly: [{ carrier: UA, n: 1 }]
    dead_letters: []
"""
