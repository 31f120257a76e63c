import pytest

from ottla.coordination.limits import CoordinatorLimits
from ottla.coordination.shard_log import ShardLog
from ottla.model.error_code import ErrorCode
from ottla.native import decode_records
from tests.unit.coordination.held_partition import HeldPartition
from tests.unit.coordination.toy import WordAnswer, environment


class Harness:
    def __init__(self, *, holds_back: bool = False, **limits: int) -> None:
        env, self.turn = environment()
        self.partition = HeldPartition(env, holds_back=holds_back)
        self.failures: list[ErrorCode] = []
        self.log = ShardLog(
            self.partition, env, CoordinatorLimits(**limits), lambda ack: self.failures.append(ack.error)
        )
        self.heard: list[str] = []

    def write(self, name: str, *keys: bytes) -> None:
        self.log.write([(key, b"v") for key in keys], [(self._hear(name), WordAnswer(word=name))])

    def _hear(self, name: str):
        return lambda answer: self.heard.append(
            name if answer.error is ErrorCode.NONE else f"{name}:{answer.error.name}"
        )


@pytest.fixture
async def held() -> Harness:
    return Harness(holds_back=True)


async def test_an_answer_leaves_when_its_records_are_committed(held: Harness):
    held.write("a", b"1")
    assert held.heard == []
    held.turn.end()
    assert held.heard == []
    held.partition.commit()
    assert held.heard == ["a"]


async def test_an_answer_without_records_leaves_at_once_when_nothing_is_under_way(held: Harness):
    held.write("a")
    assert held.heard == ["a"]


async def test_an_answer_without_records_waits_for_what_was_written_before_it(held: Harness):
    held.write("a", b"1")
    held.write("b")
    held.turn.end()
    held.write("c")
    assert held.heard == []
    held.partition.commit()
    assert held.heard == ["a", "b", "c"]
    held.write("d")
    assert held.heard == ["a", "b", "c", "d"]


async def test_an_append_that_fails_in_an_unexpected_way_is_one_that_was_refused(
    held: Harness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(held.partition, "append", None)
    held.write("a", b"1")
    held.turn.end()
    assert held.failures == [ErrorCode.UNKNOWN_SERVER_ERROR]
    held.log.close(ErrorCode.NOT_COORDINATOR)
    assert held.heard == ["a:NOT_COORDINATOR"]


async def test_the_records_of_one_turn_are_one_append(held: Harness):
    held.write("a", b"1", b"2")
    held.write("b", b"3")
    held.turn.end()
    held.write("c", b"4")
    held.turn.end()
    assert held.partition.appends == [1, 1]
    held.partition.commit()
    first = held.partition.batches[0][2]
    assert [key for _, _, key, _, _ in decode_records(first, max_decompressed_bytes=1 << 20)] == [b"1", b"2", b"3"]


async def test_no_batch_is_larger_than_the_topic_allows():
    harness = Harness(batch_bytes_max=500)
    harness.write("a", *(b"%03d" % number * 30 for number in range(20)))
    harness.turn.end()
    assert harness.heard == ["a"]
    assert harness.partition.appends[0] > 1
    assert max(len(data) for _, _, data in harness.partition.batches) <= 500
    assert harness.partition.high_watermark == 20


async def test_a_refused_append_is_reported_and_closing_tells_everybody(held: Harness):
    held.write("a", b"1")
    held.turn.end()
    held.write("b", b"2")
    held.write("c")
    await held.partition.lose()
    assert held.failures == [ErrorCode.KAFKA_STORAGE_ERROR]
    held.log.close(ErrorCode.NOT_COORDINATOR)
    assert held.heard == ["a:NOT_COORDINATOR", "b:NOT_COORDINATOR", "c:NOT_COORDINATOR"]
    held.turn.end()
    assert held.partition.appends == [1]


async def test_an_acknowledgement_after_closing_answers_nobody_twice(held: Harness):
    held.write("a", b"1")
    held.turn.end()
    held.log.close(ErrorCode.NOT_COORDINATOR)
    held.partition.commit()
    assert held.heard == ["a:NOT_COORDINATOR"]


async def test_an_append_that_fails_after_closing_is_no_news(held: Harness):
    held.write("a", b"1")
    held.turn.end()
    held.log.close(ErrorCode.NOT_COORDINATOR)
    await held.partition.lose()
    assert held.failures == []


async def test_one_answer_that_cannot_be_given_does_not_keep_the_others_waiting(held: Harness):
    def broken(answer: object) -> None:
        raise RuntimeError("the connection is in a bad way")

    held.log.write([(b"1", None)], [(broken, WordAnswer())])
    held.write("b")
    held.turn.end()
    held.partition.commit()
    assert held.heard == ["b"]
