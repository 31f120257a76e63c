"""How long an acknowledgement takes at a fixed rate, and a record to a consumer in another process."""

from __future__ import annotations

from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.session import Session

SECONDS = {1_000: 12.0, 20_000: 8.0}
SKIP_SECONDS = 1.0
SIZE = 100
QUANTILES = (("p50_ms", "p50 ms"), ("p99_ms", "p99 ms"), ("p999_ms", "p99.9 ms"))


def measure(session: Session, broker: Broker, rates: tuple[int, ...]) -> None:
    """Rows `latency at RATE/s`: no linger, one partition, acks=all."""
    load = session.load(broker)
    for rate in rates:
        topic, row = f"paced-{rate}", f"latency at {rate:,}/s"
        session.create_topic(broker, topic)
        session.fill_page_cache()
        acknowledged, received = load.paced(
            topic, rate, session.seconds(SECONDS[rate]), session.seconds(SKIP_SECONDS), SIZE
        )
        for kind, delays in (("ack", acknowledged), ("end to end", received)):
            for key, quantile in QUANTILES:
                session.record(row, f"{kind} {quantile}", delays[key])
            said = ", ".join(f"{quantile[:-3]} {delays[key]:.2f}" for key, quantile in QUANTILES)
            session.say(f"{row}: {kind} {said} ms")
