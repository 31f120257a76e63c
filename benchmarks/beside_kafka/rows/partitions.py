"""One topic of 1 to 10,000 partitions: to create, to fill, to read, to hold in memory and to start again with."""

from __future__ import annotations

from benchmarks.beside_kafka.aims import BATCH_KB
from benchmarks.beside_kafka.batch_sizes import kilobytes_a_batch
from benchmarks.beside_kafka.process_usage import pss_mb
from benchmarks.beside_kafka.session import Session

COUNTS = (1, 100, 1_000, 10_000)
RECORDS = 1_000_000
SIZE = 100
SECONDS_MAX = 60.0


def measure(session: Session) -> None:
    """Rows `partitions: N`, each on a broker of its own."""
    for partitions in COUNTS:
        wanted = max(1, int(partitions * min(1.0, session.scale * 10)))
        row, broker = f"partitions: {partitions:,}", session.new_broker()
        try:
            broker.start()
            load = session.load(broker)
            session.fill_page_cache()
            session.record(row, "create s", session.create_topic(broker, "many", wanted))
            done = load.produce("many", size=SIZE, count=session.count(RECORDS), seconds=SECONDS_MAX, partitions=wanted)
            session.record(row, "produce records/s", done["records"] / done["seconds"])
            read = load.consume("many", count=done["records"], partitions=wanted)
            session.record(row, "consume records/s", read["records"] / read["seconds"])
            session.record(row, BATCH_KB, kilobytes_a_batch(broker.log_directory, "many"))
            memory = pss_mb(broker.pid)
            session.record(row, "PSS MB", memory)
            broker.stop()
            again = broker.start().first_acknowledgement
            session.record(row, "start again, first acknowledged record s", again)
            session.say(
                f"{row}: produce {done['records'] / done['seconds']:,.0f}/s, "
                f"consume {read['records'] / read['seconds']:,.0f}/s, {memory:.0f} MB, start {again:.2f} s"
            )
        finally:
            broker.kill()
            broker.remove()
