"""What conformance tests claim, and the table it comes to."""

import json

import pytest

from tests.conformance.proof_table import Outcome, Proof, as_json, as_markdown, claims

PROOFS = [
    Proof("kafkajs", "seek", "test_seek[js]", Outcome.SKIPPED, "kafkajs: npm was not found"),
    Proof("aiokafka", "seek", "test_seek[aio]", Outcome.OK),
    Proof("aiokafka", "acks", "test_acks[1]", Outcome.FAILED, "assert 1 == 2"),
    Proof("aiokafka", "acks", "test_acks[0]", Outcome.OK),
    Proof("confluent-kafka", "acks", "test_acks", Outcome.OK),
    Proof("confluent-kafka", "acks", "test_more", Outcome.SKIPPED, "not here"),
]


def test_the_client_of_a_class_is_that_of_its_tests():
    assert claims([{"feature": "seek"}, {"client": "aiokafka"}]) == [("aiokafka", "seek")]
    assert claims([{"feature": "seek", "client": "kafkajs"}, {"client": "aiokafka"}]) == [("kafkajs", "seek")]
    assert claims([{"client": "b", "feature": "x"}, {"client": "a", "feature": "x"}]) == [("a", "x"), ("b", "x")]
    assert claims([{"client": "aiokafka"}]) == claims([]) == []


@pytest.mark.parametrize("mark", [{}, {"feature": "seek"}, {"clients": "aiokafka"}])
def test_a_mark_that_says_too_little_is_refused(mark):
    with pytest.raises(ValueError, match=r"mark|client"):
        claims([mark])


def test_the_table_is_the_same_in_whatever_order_tests_ran():
    assert as_markdown(PROOFS) == as_markdown(PROOFS[::-1])
    assert as_json(PROOFS) == as_json(PROOFS[::-1])


def test_one_failure_marks_the_cell_and_reasons_are_below():
    assert as_markdown(PROOFS).splitlines() == [
        "# Clients by features",
        "",
        "| feature | confluent-kafka | aiokafka | kafkajs |",
        "| --- | --- | --- | --- |",
        "| acks | ok, 1 of 2 skipped | **failed** 1 of 2 |  |",
        "| seek |  | ok | skipped |",
        "",
        "## Failed",
        "",
        "- aiokafka, acks: `test_acks[1]`: assert 1 == 2",
        "",
        "## Skipped",
        "",
        "- confluent-kafka, acks: `test_more`: not here",
        "- kafkajs, seek: `test_seek[js]`: kafkajs: npm was not found",
    ]


def test_the_json_has_each_test_of_each_cell():
    cells = json.loads(as_json(PROOFS))
    assert [(cell["client"], cell["feature"], cell["outcome"]) for cell in cells] == [
        ("confluent-kafka", "acks", "ok"),
        ("aiokafka", "acks", "failed"),
        ("aiokafka", "seek", "ok"),
        ("kafkajs", "seek", "skipped"),
    ]
    assert cells[1]["tests"][1] == {"test": "test_acks[1]", "outcome": "failed", "reason": "assert 1 == 2"}
