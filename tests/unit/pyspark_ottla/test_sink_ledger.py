"""What the ledger says does not depend on whether it is read from the end back or from where it was left."""

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.blocking import BlockingClient
from ottla.client.consuming.fetch import FetchedBatches
from ottla.client.producing.producer_batch import Identity
from ottla.native import decode_records
from pyspark_ottla.sink_ledger import PARTITION, Attempt, Closing, Ledger, Owner, SinkLedger, State
from tests.broker_process import BrokerProcess

DRIVER = Owner("driver", ("former",), 1, 0)


class Watched(BlockingClient):
    """A client that says from which offset on it was asked for records."""

    lowest: int | None = None

    def fetch_raw(self, topic: str, partition: int, offset: int, **how: int) -> FetchedBatches:  # type: ignore[override]
        self.lowest = offset if self.lowest is None else min(offset, self.lowest)
        return super().fetch_raw(topic, partition, offset, **how)  # type: ignore[arg-type]


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Watched]:
    with Watched(broker.bootstrap) as client:
        yield client


def state(batch_id: int) -> State:
    return State("query", batch_id, "run", 1, 1, 0)


def said(found: Ledger) -> tuple[Owner | None, State | None]:
    """Without how far was read: other tests write to the same topic."""
    return found.owner, found.state


class Sink:
    """What a driver does with the ledger of one id."""

    def __init__(self, client: BlockingClient, name: str) -> None:
        self.client, self.name = client, name
        self.ledger = SinkLedger(client, name)
        self.ledger.create()

    def begin(self, number: int) -> Identity:
        """A batch's transaction, with its number in it, that is still open."""
        identity = self.client.transactions(self.name).take_over(60_000)
        self.ledger.append(Attempt(1, 0, 0, f"attempt-{number}"))
        producer = self.client.producer(transactional_id=self.name, identity=identity)
        producer.send(PARTITION, self.ledger.state_batch(state(number)))
        producer.flush()
        self.ledger.append(Closing(1, 0))
        return identity

    def end(self, identity: Identity, *, commit: bool) -> None:
        transactions = self.client.transactions(self.name)
        transactions.end(identity, commit=commit)
        transactions.describe()


def test_the_next_reading_looks_only_at_what_came_since_and_finds_the_same(client):
    sink, other = Sink(client, "incremental"), Sink(client, "beside it")
    kept = sink.ledger
    assert (kept.read().owner, kept.read().state) == (None, None)
    kept.append(DRIVER)

    def same() -> State | None:
        """What both readings say; the one that goes on began where the last one ended."""
        before = kept.read().end
        other.ledger.append(Attempt(2, 0, 0, "of another"))
        client.lowest = None
        found = kept.read()
        assert client.lowest == before
        assert said(found) == said(SinkLedger(client, "incremental").read())
        assert found.owner == DRIVER
        return found.state

    for number, commit in enumerate((True, False, True)):
        before = same()
        open_one = sink.begin(number)
        assert same() == before
        sink.end(open_one, commit=commit)
        assert same() == (state(number) if commit else before)
    kept.append(Owner("later", ("former", "driver"), 2, 0))
    assert said(kept.read()) == said(SinkLedger(client, "incremental").read())
    assert kept.read().owner == Owner("later", ("former", "driver"), 2, 0)


def test_after_a_reading_that_broke_off_nothing_of_it_is_taken_for_read(client, monkeypatch):
    sink = Sink(client, "broken off")
    kept = sink.ledger
    kept.append(DRIVER)
    assert kept.read().owner == DRIVER
    sink.end(sink.begin(0), commit=True)

    def until_the_state(data: memoryview, **how: Any) -> list[Any]:
        if b'"state"' in bytes(data):
            raise KeyboardInterrupt
        return decode_records(data, **how)

    with monkeypatch.context() as broken:
        broken.setattr("pyspark_ottla.sink_ledger.decode_records", until_the_state)
        with pytest.raises(KeyboardInterrupt):
            kept.read()
    assert said(kept.read()) == said(SinkLedger(client, "broken off").read())
    assert kept.read().state == state(0)


def test_a_log_that_has_become_shorter_is_read_from_its_end_again(client, monkeypatch):
    sink = Sink(client, "shorter")
    sink.ledger.append(DRIVER)
    found = sink.ledger.read()
    sink.ledger.append(Owner("lost", (), 2, 0))
    assert sink.ledger.read().owner == Owner("lost", (), 2, 0)
    monkeypatch.setattr(SinkLedger, "_end", lambda _: found.end)
    assert sink.ledger.read() == found
