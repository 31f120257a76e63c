"""`mode=exactly-once` against a running broker: the writers are called as Spark calls them, and stopped at each step.

What counts is what another client reads with `read_committed`.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial
from itertools import count

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from ottla.client.admin.admin import NewTopic
from ottla.client.blocking import BlockingClient
from pyspark_ottla import DefaultSource, sink_state
from pyspark_ottla.delivery import Refused
from pyspark_ottla.options import OptionError
from pyspark_ottla.sink_commit import Skipped, TransactionPart
from pyspark_ottla.spark_process import SparkTask
from pyspark_ottla.writer import OttlaStreamWriter, OttlaWriter, PlanError
from tests.broker_process import BrokerProcess
from tests.committed_records import committed_records

_names = count()
_attempts = count()
SCHEMA = StructType([StructField("value", StringType())])
PLACED = StructType([StructField("value", StringType()), StructField("partition", IntegerType())])


class Killed(BaseException):
    """The process ends here."""


def name_of(driver: str) -> str:
    return driver


def stop_at(where: str, step: str) -> None:
    if step == where:
        raise Killed(step)


class Query:
    """A run of a query on a driver: plans, runs tasks and commits, each with a writer of its own."""

    def __init__(self, sink: Sink, driver: str, run: str, query_id: str) -> None:
        self.sink, self.driver, self.run, self.query_id = sink, driver, run, query_id

    def writer(self, schema: StructType = SCHEMA) -> OttlaStreamWriter:
        writer = DefaultSource(self.sink.options).streamWriter(schema, False)
        writer._driver = partial(name_of, self.driver)
        return writer

    def plan(self, schema: StructType = SCHEMA) -> bytes:
        return pickle.dumps(self.writer(schema))

    def task(
        self, planned: bytes, batch: int, values: Sequence[str], *, index: int = 0, stop: str = ""
    ) -> WriterCommitMessage:
        """One attempt at a task."""
        writer = pickle.loads(planned)
        writer._task = partial(SparkTask, index, f"attempt-{next(_attempts)}", self.query_id, self.run, batch)
        writer._step = partial(stop_at, stop)
        return writer.write(iter([pa.record_batch({"value": list(values)})] if values else []))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        self.writer().commit(messages, batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        self.writer().abort(messages, batch)

    def batch(self, number: int, values: Sequence[str]) -> WriterCommitMessage:
        message = self.task(self.plan(), number, values)
        self.commit([message], number)
        return message


class Sink:
    """A topic and a transactional id."""

    def __init__(self, bootstrap: str, partitions: int = 2) -> None:
        self.topic = f"exactly-once-{next(_names)}"
        self.bootstrap = bootstrap
        self.partitions = partitions
        self.client = BlockingClient(bootstrap)
        self.client.create_topic(NewTopic(self.topic, partitions))
        self.options = {
            "kafka.bootstrap.servers": bootstrap,
            "topic": self.topic,
            "mode": "exactly-once",
            "transactionalId": self.topic,
        }

    def query(self, driver: str = "driver", run: str = "run", query_id: str = "query") -> Query:
        return Query(self, driver, run, query_id)

    def committed(self) -> list[str]:
        """What a reader of committed records sees once nothing is open."""
        transactions = self.client.transactions(self.topic)
        described = transactions.describe()
        assert described is not None
        assert described.state != "Ongoing"
        return sorted(message.value().decode() for message in committed_records(self.bootstrap, self.topic))

    def batch_id(self) -> int | None:
        state = sink_state.committed_batch(self.bootstrap, self.topic)
        return state.batch_id if state is not None else None


@pytest.fixture
def sink(broker: BrokerProcess) -> Sink:
    return Sink(broker.bootstrap)


def test_batches_of_a_run_are_committed_one_after_the_other_with_their_numbers(sink):
    query = sink.query()
    for number in range(3):
        query.batch(number, [f"{number}-{each}" for each in range(10)])
        assert sink.batch_id() == number
    assert sink.committed() == sorted(f"{number}-{each}" for number in range(3) for each in range(10))
    assert sink_state.committed_batch(sink.bootstrap, sink.topic) == sink_state.SinkState(sink.topic, "query", 2, 10)


def test_nothing_is_seen_before_the_commit_and_nothing_after_an_abort(sink):
    query = sink.query()
    message = query.task(query.plan(), 0, ["a"])
    query.abort([message, None], 0)
    assert sink.committed() == []
    assert sink.batch_id() is None


def test_tasks_with_partitions_of_their_own_are_one_transaction(sink):
    query = sink.query()
    planned = query.plan()
    messages = [query.task(planned, 0, [f"{index}-{each}" for each in range(5)], index=index) for index in range(2)]
    query.commit([*messages, query.task(planned, 0, [], index=2)], 0)
    assert sink.committed() == sorted(f"{index}-{each}" for index in range(2) for each in range(5))


@pytest.mark.parametrize("stop", ["announce", "produce", "produced"])
def test_a_driver_that_dies_around_a_task_writes_the_batch_once(sink, stop):
    first = sink.query()
    first.batch(0, ["a"])
    with pytest.raises(Killed):
        first.task(first.plan(), 1, ["b"], stop=stop)
    second = sink.query("driver again", "run again")
    second.batch(1, ["b"])
    second.batch(2, ["c"])
    assert sink.committed() == ["a", "b", "c"]


def test_a_driver_that_dies_before_it_commits_writes_the_batch_once(sink):
    first = sink.query()
    first.task(first.plan(), 0, ["a"])
    sink.query("driver again", "run again").batch(0, ["a"])
    assert sink.committed() == ["a"]


@pytest.mark.parametrize("before", ["append", "send", "end"])
def test_a_driver_that_dies_while_it_commits_writes_the_batch_once(sink, before, monkeypatch):
    """Before the ledger is closed, before the batch's number is written, before the transaction ends."""
    first = sink.query()
    message = first.task(first.plan(), 0, ["a"])
    target = {
        "append": "pyspark_ottla.sink_ledger.SinkLedger.append",
        "send": "ottla.client.producing.blocking_producer.BlockingProducer.send",
        "end": "ottla.client.producing.blocking_transactions.BlockingTransactions.end",
    }[before]
    with monkeypatch.context() as patch:
        # Not even the abort of what failed is sent.
        patch.setattr("ottla.client.producing.blocking_transactions.BlockingTransactions.end", killed)
        patch.setattr(target, killed)
        with pytest.raises(Killed):
            first.commit([message], 0)
    sink.query("driver again", "run again").batch(0, ["a"])
    assert sink.committed() == ["a"]
    assert sink.batch_id() == 0


def killed(*_: object, **__: object) -> None:
    raise Killed


def test_a_batch_that_was_committed_before_spark_said_so_is_skipped(sink):
    sink.query().batch(0, ["a"])
    message = sink.query("driver again", "run again").batch(0, ["a, in another order"])
    assert message == Skipped(is_committed=True)
    assert sink.committed() == ["a"]


def test_the_rows_of_a_skipped_batch_are_read_to_their_end(sink):
    sink.query().batch(0, ["a"])
    query = sink.query("driver again", "run again")
    writer = pickle.loads(query.plan())
    writer._task = partial(SparkTask, 0, "attempt", "query", "run again", 0)
    rows = iter([pa.record_batch({"value": ["a"]})])
    writer.write(rows)
    assert next(rows, None) is None


def test_another_query_is_refused_and_nothing_of_it_is_skipped_or_written(sink):
    sink.query().batch(4, ["a"])
    other = sink.query("driver again", "run again", "another query")
    with pytest.raises(OptionError, match="is that of query query, which committed batch 4, and this is query another"):
        other.batch(0, ["b"])
    assert sink.committed() == ["a"]


def test_a_released_id_is_another_querys(sink):
    sink.query().batch(4, ["a"])
    sink_state.release(sink.bootstrap, sink.topic)
    assert sink.batch_id() is None
    sink.query("driver again", "run again", "another query").batch(0, ["b"])
    assert sink.committed() == ["a", "b"]


def test_the_earlier_of_two_drivers_stops_for_good_and_the_later_goes_on(sink):
    earlier, later = sink.query("earlier", "run 1"), sink.query("later", "run 2")
    earlier.batch(0, ["a"])
    open_message = earlier.task(earlier.plan(), 1, ["b"])
    later.batch(1, ["b"])
    with pytest.raises(OptionError, match=r"^fenced: another driver"):
        earlier.commit([open_message], 1)
    for _ in range(2):
        with pytest.raises(PlanError, match=r"^fenced: another driver \(later\) writes with transactionalId"):
            sink.query("earlier", "run 3").plan()
    later.batch(2, ["c"])
    assert sink.committed() == ["a", "b", "c"]


def test_a_driver_whose_batch_failed_goes_on_with_the_next_run(sink):
    first = sink.query()
    first.batch(0, ["a"])
    first.task(first.plan(), 1, ["half of it"])
    sink.query(run="run again").batch(1, ["b"])
    assert sink.committed() == ["a", "b"]


def test_a_task_that_is_tried_again_after_it_may_have_written_fails_the_batch(sink):
    query = sink.query()
    planned = query.plan()
    with pytest.raises(Killed):
        query.task(planned, 0, ["a", "b"], stop="produced")
    message = query.task(planned, 0, ["b", "a"])
    assert isinstance(message, Refused)
    with pytest.raises(OptionError, match="Spark tried task 0 again"):
        query.commit([message], 0)
    query.abort([message], 0)
    sink.query(run="run again").batch(0, ["a", "b"])
    assert sink.committed() == ["a", "b"]


def test_a_task_that_failed_before_it_could_write_may_be_tried_again(sink):
    query = sink.query()
    planned = query.plan()
    with pytest.raises(Killed):
        query.task(planned, 0, ["a"], stop="announce")
    query.commit([query.task(planned, 0, ["a"])], 0)
    assert sink.committed() == ["a"]


def test_an_attempt_that_comes_after_the_end_has_begun_writes_nothing(sink):
    query = sink.query()
    planned = query.plan()
    message = query.task(planned, 0, ["a"])
    query.commit([message], 0)
    late = query.task(planned, 0, ["z"], index=1)
    assert late == Refused("an attempt at a task came after its batch had been closed")
    assert sink.committed() == ["a"]


def test_rows_of_an_attempt_that_nobody_speaks_of_abort_the_batch(sink):
    query = sink.query()
    planned = query.plan()
    query.task(planned, 0, ["z"], index=1)
    message = query.task(planned, 0, ["a"])
    with pytest.raises(OptionError, match="Spark tried task 1 of this batch again"):
        query.commit([message], 0)
    assert sink.committed() == []


def test_two_tasks_in_one_partition_abort_the_batch_with_the_recipe(sink):
    query = sink.query()
    planned = query.plan()
    messages = [query.task(planned, 0, ["a"], index=0), query.task(planned, 0, ["b", "c"], index=2)]
    with pytest.raises(OptionError, match=r"write frame.coalesce\(1\), or pyspark_ottla.by_partition"):
        query.commit(messages, 0)
    assert sink.committed() == []


def test_two_tasks_that_say_nothing_of_the_same_partition_are_found_by_what_they_wrote(sink):
    """Equally many rows: the leader takes those of the second task for the first's, sent again."""
    query = sink.query()
    planned = query.plan()
    messages = [query.task(planned, 0, ["a"], index=0), query.task(planned, 0, ["b"], index=2)]
    with pytest.raises(OptionError, match="tasks 0 and 2 both wrote to"):
        query.commit(messages, 0)
    assert sink.committed() == []


@pytest.mark.parametrize("what", ["more", "less", "elsewhere"])
def test_a_batch_of_which_the_leaders_know_otherwise_is_aborted(sink, what):
    query = sink.query()
    message = query.task(query.plan(), 0, ["a", "b"])
    assert isinstance(message, TransactionPart)
    [(partition, last)] = message.last_sequences.items()
    told = {"more": {partition: last + 1}, "less": {partition: last - 1}, "elsewhere": {}}[what]
    message.last_sequences.clear()
    message.last_sequences.update(told)
    with pytest.raises(OptionError, match="what the brokers have of this batch is not what its tasks wrote"):
        query.commit([message], 0)
    assert sink.committed() == []


def test_an_abort_after_a_commit_that_was_not_heard_of_changes_nothing(sink):
    query = sink.query()
    message = query.task(query.plan(), 0, ["a"])
    query.commit([message], 0)
    query.abort([message], 0)
    query.batch(1, ["b"])
    assert sink.committed() == ["a", "b"]


def test_a_commit_whose_answer_was_lost_and_that_another_driver_overtook_has_happened(sink, monkeypatch):
    query = sink.query()
    message = query.task(query.plan(), 0, ["a"])

    def end_and_be_overtaken(transactions, identity, *, commit):
        monkeypatch.undo()
        transactions.end(identity, commit=commit)
        transactions.take_over(60_000)
        transactions.end(identity, commit=commit)

    monkeypatch.setattr("ottla.client.producing.blocking_transactions.BlockingTransactions.end", end_and_be_overtaken)
    query.commit([message], 0)
    assert sink.committed() == ["a"]


def test_a_second_write_of_a_batch_with_the_same_id_is_refused_in_the_same_run(sink):
    query = sink.query()
    query.batch(0, ["a"])
    with pytest.raises(OptionError, match="each write of a batch needs a transactionalId of its own"):
        query.batch(0, ["b"])
    assert sink.committed() == ["a"]


def test_an_empty_batch_begins_no_transaction(sink):
    assert sink.query().batch(0, []) == Skipped()
    assert sink.batch_id() is None


def test_rows_that_make_no_record_abort_the_batch_without_another_attempt(sink):
    query = sink.query()
    writer = pickle.loads(query.plan(PLACED))
    writer._task = partial(SparkTask, 0, "attempt", "query", "run", 0)
    rows = pa.record_batch({"value": ["a", "b"], "partition": pa.array([0, 9], pa.int32())})
    message = writer.write(iter([rows]))
    with pytest.raises(OptionError, match="there is no partition 9, the topic has 2"):
        query.commit([message], 0)
    sink.query(run="run again").batch(0, ["a"])
    assert sink.committed() == ["a"]


# Batch writes.


def batch_write(sink: Sink, values: list[str], driver: str = "driver", **given: str) -> WriterCommitMessage:
    writer: OttlaWriter = DefaultSource({**sink.options, **given}).writer(SCHEMA, False)
    writer._driver = partial(name_of, driver)
    planned = pickle.dumps(writer)
    message = pickle.loads(planned).write(iter([pa.record_batch({"value": values})]))
    pickle.loads(planned).commit([message])
    return message


def test_a_batch_of_foreach_batch_is_written_once(sink):
    for batch_id in (0, 1, 1, 0, 2):
        batch_write(sink, [str(batch_id)], queryId="query", batchId=str(batch_id))
    assert sink.committed() == ["0", "1", "2"]
    assert sink.batch_id() == 2


def test_a_write_on_its_own_is_all_or_nothing_and_no_querys(sink):
    batch_write(sink, ["a", "b"])
    batch_write(sink, ["c"], driver="another")
    assert sink.committed() == ["a", "b", "c"]
    sink.query("driver 3").batch(0, ["d"])
    with pytest.raises(OptionError, match="and this is a write on its own"):
        batch_write(sink, ["e"], driver="driver 4")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "exactly-once"}, "option transactionalId is missing"),
        ({"transactionalId": "t"}, "only mode=exactly-once has transactions"),
        ({"queryId": "q", "batchId": "1"}, "only mode=exactly-once knows a batch again"),
        ({"mode": "exactly-once", "transactionalId": "t", "queryId": "q"}, "queryId and batchId go together"),
        ({"mode": "exactly-once", "transactionalId": "t", "queryId": "q", "batchId": "-1"}, "batchId must be at least"),
        ({"mode": "sometimes"}, "option mode must be at-least-once or exactly-once, not 'sometimes'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given, message):
    with pytest.raises(OptionError, match=message):
        DefaultSource({"kafka.bootstrap.servers": "unused:1", "topic": "t", **given}).writer(SCHEMA, False)


def test_an_id_that_nobody_used_has_no_state(broker):
    assert sink_state.committed_batch(broker.bootstrap, "nobody") is None


def test_a_transactional_id_that_the_broker_refuses_is_told_before_any_task(sink):
    options = {**sink.options, "kafka.transaction.timeout.ms": "2000000000"}
    writer = DefaultSource(options).streamWriter(SCHEMA, False)
    with pytest.raises(PlanError, match="INVALID_TRANSACTION_TIMEOUT"):
        pickle.dumps(writer)
