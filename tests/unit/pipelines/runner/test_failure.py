"""The reason of a failure in one line, and what follows from it."""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from ottla.client.producing.producer_batch import Identity
from ottla.pipelines.runner.failure import LINE_CHARS_MAX, Verdict, failure_of, reason_of
from pyspark_ottla.sink_commit import TransactionPart, UncommittableError, _check_attempts
from pyspark_ottla.sink_lease import Lease
from pyspark_ottla.sink_ledger import TOPIC, Attempt, SinkLedger
from pyspark_ottla.sink_task import Batch, TransactionTask
from pyspark_ottla.write_columns import WriteColumns
from pyspark_ottla.write_options import WriteOptions
from tests.unit.pyspark_ottla.model_log import ModelLog, ModelPartition

if TYPE_CHECKING:
    from pyspark_ottla.sink_ledger import LedgerClient

RAISED = "\n".join(
    [
        "StreamingQueryException: [STREAM_FAILED] Query [id = 1, runId = 2] terminated: aborted. SQLSTATE: X",
        "=== Streaming Query ===",
        "JVM stacktrace:",
        "org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query terminated",
        "\tat org.apache.spark.sql.execution.streaming.StreamExecution.runStream(StreamExecution.scala:360)",
        "Caused by: o.a.SparkRuntimeException: [USER_RAISED_EXCEPTION] expectation failed: step sane: SQLSTATE: P0001",
        "\tat org.apache.spark.sql.errors.QueryExecutionErrors.raiseError(QueryExecutionErrors.scala)",
    ]
)
IN_PYTHON = "\n".join(
    [
        "StreamingQueryException: [STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: planning failed",
        '  File "/x/pyspark/worker.py", line 1, in main',
        "Traceback (most recent call last):",
        '  File "/x/stream_reader.py", line 9, in latestOffset',
        "ottla.client.errors.BrokerUnreachableError: no broker of 127.0.0.1:1 answers",
        "\tat org.apache.spark.api.python.BasePythonRunner",
    ]
)


def test_a_check_that_ends_the_query_is_told_by_its_own_words():
    failure = failure_of(RAISED)
    assert failure.reason == "expectation failed: step sane:"
    assert failure.verdict is Verdict.HOPELESS


def test_an_exception_in_python_is_told_without_its_traceback():
    failure = failure_of(IN_PYTHON)
    assert failure.reason == "BrokerUnreachableError: no broker of 127.0.0.1:1 answers"
    assert failure.verdict is Verdict.UNREACHABLE


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("OptionError: topic 't' does not exist on the broker", Verdict.HOPELESS),
        ("RuntimeError: this driver was fenced by another one", Verdict.HOPELESS),
        ("TableError: lake: the rows do not fit the table, nothing was written", Verdict.HOPELESS),
        ("BrokerError: REQUEST_TIMED_OUT while producing", Verdict.UNREACHABLE),
        ("ValueError: something else", Verdict.UNKNOWN),
        ("SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", Verdict.ROW),
        ("NumberFormatException: [CAST_INVALID_INPUT] The value 'Connection refused' SQLSTATE: 22018", Verdict.ROW),
        ("SparkRuntimeException: [USER_RAISED_EXCEPTION] too long SQLSTATE: P0001", Verdict.ROW),
        ("SparkRuntimeException: [USER_RAISED_EXCEPTION] expectation failed: step a SQLSTATE: P0001", Verdict.HOPELESS),
        ("SparkException: [STREAM_FAILED] Query terminated SQLSTATE: XXKST", Verdict.UNKNOWN),
    ],
)
def test_what_is_worth_another_attempt(text, verdict):
    assert failure_of(text).verdict is verdict


def test_a_batch_that_lost_an_executor_is_tried_again_though_its_error_is_one_of_options():
    attempt = Attempt(7, 1, task=0, attempt="first")
    lease = Lease("id", Identity(7, 1, is_transactional=True), None, 0)
    log = cast("LedgerClient", ModelLog({TOPIC: [ModelPartition()]}))
    ledger = SinkLedger(log, "id")
    ledger.append(attempt)
    given = {"kafka.bootstrap.servers": "b:1", "topic": "t", "mode": "exactly-once", "transactionalId": "id"}
    columns = WriteColumns(StructType([StructField("value", StringType())]), "t")
    task = TransactionTask(WriteOptions.of(given), columns, lease, Batch("q", 3, "run"), 0, "second")
    refusal = task._announce(ledger, replace(attempt, attempt="second"))
    assert refusal is not None
    assert failure_of(f"StreamingQueryException: aborted\nOptionError: {refusal}").verdict is Verdict.UNKNOWN
    # Both attempts have announced themselves, and one of them has ended well.
    with pytest.raises(UncommittableError) as raised:
        _check_attempts([TransactionPart(lease, "q", 3, "run", attempt, 1)], ledger)
    assert failure_of(f"UncommittableError: {raised.value}").verdict is Verdict.UNKNOWN


def test_the_condition_of_spark_is_told_where_no_exception_says_more():
    assert reason_of("SparkException: [CAST_INVALID_INPUT] The value 'x' cannot be cast SQLSTATE: 22018\n\tat a.b") == (
        "The value 'x' cannot be cast"
    )


def test_a_reason_is_one_line_of_bounded_length():
    reason = reason_of("ValueError: " + "x" * 5000 + "\nmore")
    assert len(reason) == LINE_CHARS_MAX
    assert "\n" not in reason
    assert reason_of("") == "no reason given"


PLANNED = """\
=== Streaming Query ===
Identifier: copy.out [id = 1, runId = 2]
Logical Plan:
WriteToMicroBatchDataSource copy.out
+- Filter CASE WHEN isnotnull(_reason) THEN raise_error(concat(a record does not decode: source events: the record , x))
   +- Filter (note = Connection refused) AND raise_error(expectation failed: step sane)
"""


@pytest.mark.parametrize(
    ("raised", "verdict"),
    [
        ("ZeroDivisionError: division by zero", Verdict.UNKNOWN),
        ("OptionError: 'out' does not exist on the broker", Verdict.HOPELESS),
        ("BrokerUnreachableError: no broker answers", Verdict.UNREACHABLE),
    ],
)
def test_what_the_plan_of_a_query_says_is_not_what_happened_to_it(raised, verdict):
    failure = failure_of(
        f"StreamingQueryException: [STREAM_FAILED] Query terminated\n{PLANNED}\n\nJVM stacktrace:\n"
        f"org.apache.spark.sql.streaming.StreamingQueryException: Query terminated\n{PLANNED}"
        "\tat org.apache.spark.sql.execution.streaming.StreamExecution.runStream(StreamExecution.scala:360)\n"
        f"Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n{raised}\n"
        "\tat org.apache.spark.api.python.BasePythonRunner"
    )
    assert (failure.reason, failure.verdict) == (raised, verdict)


def test_what_a_process_of_python_says_is_told_without_what_it_was_doing():
    said = (
        "Failed when Python streaming data source perform initialOffset: pyspark_ottla.options.OptionError: 'in' does"
    )
    failure = failure_of(
        f"SparkException: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] {said} not exist SQLSTATE: 38000"
    )
    assert failure.reason == "OptionError: 'in' does not exist"
