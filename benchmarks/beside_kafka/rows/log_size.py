"""Start-up over 1, 10 and 100 GB of log in one partition, after a clean stop and after a kill -9 under load."""

from __future__ import annotations

from benchmarks.beside_kafka.log_growth import grow
from benchmarks.beside_kafka.session import Session

GIGABYTES = (1, 10, 100)
TOPIC = "big"
SIZE = 10_000
# A little more than a segment, so that one is closed; written after each start and then killed.
FIRST_RECORDS = 115_000
KILLED_RECORDS = 20_000
SEGMENT_BYTES = 1 << 30
MINIMUM_SEGMENT_BYTES = 1 << 20


def measure(session: Session) -> None:
    """Rows `log of N GB`. Beyond the first GB the closed segments are sparse files, see `log_growth`."""
    for gigabytes in GIGABYTES:
        row, broker = f"log of {gigabytes} GB", session.new_broker()
        segment_bytes = max(MINIMUM_SEGMENT_BYTES, int(SEGMENT_BYTES * session.scale))
        records = max(FIRST_RECORDS * segment_bytes // SEGMENT_BYTES, 1)
        try:
            broker.start()
            session.create_topic(broker, TOPIC, 1, 1, **{"segment.bytes": str(segment_bytes)})
            session.fill_page_cache()
            session.load(broker).produce(TOPIC, size=SIZE, count=records)
            broker.stop()
            if gigabytes > 1:
                grow(broker.log_directory, TOPIC, gigabytes - 1)
            clean = broker.start()
            session.record(row, "clean, first acknowledged record s", clean.first_acknowledgement)
            session.load(broker).produce(TOPIC, size=SIZE, count=session.count(KILLED_RECORDS))
            broker.kill()
            killed = broker.start()
            session.record(row, "after kill -9, first acknowledged record s", killed.first_acknowledgement)
            session.say(
                f"{row}: start {clean.first_acknowledgement:.2f} s, after kill -9 {killed.first_acknowledgement:.2f} s"
            )
        finally:
            broker.kill()
            broker.remove()
