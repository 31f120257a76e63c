"""How long an acknowledgement takes at a fixed rate, and a record to a consumer in another process."""

from __future__ import annotations

from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.session import Session

SECONDS = {1_000: 12.0, 20_000: 8.0}
# librdkafka has no bound on requests in flight, and at a high rate without linger it sends nearly each record in a
# request of its own: that would measure requests a second once more. With five in flight, as the Java client has it,
# records that cannot leave at once share the next request.
SETTINGS: dict[int, dict[str, str]] = {1_000: {}, 20_000: {"max.in.flight": "5"}}
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
        with session.noting_others(row, broker):
            acknowledged, received = load.paced(
                topic, rate, session.seconds(SECONDS[rate]), session.seconds(SKIP_SECONDS), SIZE, SETTINGS[rate]
            )
        for kind, delays in (("ack", acknowledged), ("end to end", received)):
            for key, quantile in QUANTILES:
                session.record(row, f"{kind} {quantile}", delays[key])
            said = ", ".join(f"{quantile[:-3]} {delays[key]:.2f}" for key, quantile in QUANTILES)
            session.say(f"{row}: {kind} {said} ms")
