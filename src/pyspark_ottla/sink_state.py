"""Shows the newest committed batch of an exactly-once write. Needs no Spark session.

>>> committed_batch("localhost:9092", "flights.delays")  # doctest: +SKIP
SinkState(transactional_id='flights.delays', query_id='5a3e...', batch_id=41, records=1200)
"""

from dataclasses import dataclass

from ottla.client.blocking import BlockingClient
from ottla.client.errors import TopicNotFoundError
from pyspark_ottla.sink_ledger import PARTITION, TOPIC, SinkLedger, State
from pyspark_ottla.write_options import TRANSACTION_TIMEOUT_MS

__all__ = ["TOPIC", "SinkState", "committed_batch", "release"]


@dataclass(frozen=True, slots=True)
class SinkState:
    """The newest batch that was committed with a transactional id, by the query that wrote it."""

    transactional_id: str
    query_id: str
    batch_id: int
    records: int


def committed_batch(bootstrap: str, transactional_id: str) -> SinkState | None:
    """The newest committed batch; None when there is none, or the id was released. Raises ClientError."""
    with BlockingClient(bootstrap) as client:
        # A transaction whose end is under way is decided, and its marker not there yet.
        client.transactions(transactional_id).describe()
        try:
            state = SinkLedger(client, transactional_id).read().state
        except TopicNotFoundError:
            return None
    if state is None or state.query_id is None:
        return None
    return SinkState(transactional_id, state.query_id, state.batch_id, state.records)


def release(bootstrap: str, transactional_id: str) -> None:
    """Let another query write with the transactional id: its batches count from 0 again, and none is skipped.

    For a query that begins anew with an empty checkpoint. What is open is aborted; a query that still writes with the
    id fails. Raises ClientError.
    """
    with BlockingClient(bootstrap) as client:
        ledger = SinkLedger(client, transactional_id)
        ledger.create()
        transactions = client.transactions(transactional_id)
        identity = transactions.take_over(TRANSACTION_TIMEOUT_MS)
        producer = client.producer(transactional_id=transactional_id, identity=identity)
        producer.send(PARTITION, ledger.state_batch(State(None, -1, "", 0, identity.producer_id, identity.epoch)))
        producer.flush()
        transactions.end(identity, commit=True)
