"""What becomes of queries that fail, and of those that are through."""

from ottla.pipelines.runner.backoff import ATTEMPTS_MAX, UNREACHABLE_LONGEST_MS, Backoff
from ottla.pipelines.runner.failure import Failure, Verdict
from ottla.pipelines.runner.supervisor import Supervisor
from ottla.runtime.clock import ManualClock
from ottla.runtime.rng import SeededRng


class Query:
    """A query that ends as it is told to."""

    def __init__(self, error: Exception | None = None, *, active: bool = False, left: int = 0) -> None:
        self.isActive = active
        self.works = False
        self._error = error
        self.stopped = False
        self._left = left
        """How often it is told to finish before its micro-batch is done."""

    def finish(self) -> None:
        self.isActive = self._left > 0
        self._left -= 1

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        self.isActive, self.stopped = False, True


class Told:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.started: list[str] = []

    def starting(self, name):
        self.started.append(name)

    def working(self, name):
        self.lines.append(f"{name} works")

    def progressed(self, name, progress):
        self.lines.append(f"{name} batch {progress['batchId']}")

    def restarts(self, name, failure, wait_ms):
        self.lines.append(f"{name} restarts: {failure.reason}")

    def waits(self, name, failure):
        self.lines.append(f"{name} waits: {failure.reason}")

    def returned(self, name, away_ms):
        self.lines.append(f"{name} returned after {away_ms}")

    def stopping(self, name):
        self.lines.append(f"{name} stopping")

    def stopped(self, name, failure):
        self.lines.append(f"{name} stopped" if failure is None else f"{name} stopped: {failure.reason}")

    def gave_up(self, name, failure):
        self.lines.append(f"{name} gave up: {failure.reason}")

    def finished(self, name):
        self.lines.append(f"{name} finished")

    def tick(self):
        pass


def supervisor(told: Told, clock: ManualClock) -> Supervisor:
    return Supervisor(told, clock, SeededRng(1))


def test_a_query_that_fails_is_started_again_when_its_wait_is_over():
    told, clock = Told(), ManualClock(0)
    made = [Query(ValueError("broken")), Query()]
    queries = iter(made)
    watched = supervisor(told, clock)
    watched.add("p.a", lambda: next(queries), lambda query: [])
    assert watched.step()
    assert watched.step()
    assert told.lines == ["p.a restarts: ValueError: broken"]
    assert watched.step()
    assert told.lines == ["p.a restarts: ValueError: broken"]
    clock.advance(1_000)
    assert watched.step()
    assert not watched.step()
    assert told.lines[-1] == "p.a finished"


def test_what_is_hopeless_is_not_tried_again_and_the_others_go_on():
    told, clock = Told(), ManualClock(0)
    healthy = Query(active=True)
    watched = supervisor(told, clock)
    watched.add("p.a", lambda: Query(ValueError("fenced by another driver")), lambda query: [])
    watched.add("p.b", lambda: healthy, lambda query: [])
    assert watched.step()
    assert watched.step()
    assert told.lines == ["p.a gave up: ValueError: fenced by another driver"]
    watched.stop()
    [(name, failure)] = watched.run()
    assert (name, failure.verdict) == ("p.a", Verdict.HOPELESS)
    assert not healthy.isActive


ROW = ValueError("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012")


def test_a_query_that_a_row_ended_is_started_again_at_once_when_the_row_is_set_aside():
    told, clock = Told(), ManualClock(0)
    queries = iter([Query(ROW), Query()])
    seen: list[Failure] = []
    watched = supervisor(told, clock)
    watched.add("p.a", lambda: next(queries), lambda query: [], seen.append)
    while watched.step():
        pass
    assert [(each.verdict, each.reason) for each in seen] == [(Verdict.ROW, told.lines[0].partition("restarts: ")[2])]
    assert told.lines[1:] == ["p.a finished"]


def test_a_query_whose_row_is_not_found_ends_with_what_was_found_out():
    told, clock = Told(), ManualClock(0)
    watched = supervisor(told, clock)
    hopeless = Failure("step sums: overflow", Verdict.HOPELESS)
    watched.add("p.a", lambda: Query(ROW), lambda query: [], lambda failure: hopeless)
    while watched.step():
        pass
    assert told.lines[-1] == "p.a gave up: step sums: overflow"
    assert watched.run() == [("p.a", hopeless)]


def test_a_search_that_fails_is_a_failure_like_others():
    told, clock = Told(), ManualClock(0)
    queries = iter([Query(ROW), Query()])

    def mend(failure: Failure) -> Failure | None:
        raise ConnectionError("no broker could be reached")

    watched = supervisor(told, clock)
    watched.add("p.a", lambda: next(queries), lambda query: [], mend)
    while watched.step():
        clock.advance(1_000)
    assert told.lines[1:] == ["p.a waits: ConnectionError: no broker could be reached", "p.a finished"]


def test_a_query_that_is_to_end_finishes_its_micro_batch_and_is_not_interrupted():
    told, clock = Told(), ManualClock(0)
    query = Query(active=True, left=2)
    batches: list[dict] = []
    watched = supervisor(told, clock)
    watched.add("p.a", lambda: query, lambda query: batches)
    watched.add("p.b", lambda: Query(ValueError("broken")), lambda query: [])
    watched.step()
    watched.step()
    batches.append({"runId": "r", "batchId": 7, "timestamp": "t", "numInputRows": 1})
    watched.stop()
    assert watched.run() == []
    assert not query.stopped
    assert told.lines[1:] == ["p.a stopping", "p.b stopped", "p.a batch 7", "p.a stopped"]


def test_a_micro_batch_that_fails_while_its_query_is_to_end_is_told_and_not_repeated():
    told, clock = Told(), ManualClock(0)
    query = Query(ValueError("broken"), active=True)
    watched = supervisor(told, clock)
    watched.add("p.a", lambda: query, lambda query: [])
    watched.step()
    watched.stop()
    assert watched.run() == []
    assert told.lines == ["p.a stopping", "p.a stopped: ValueError: broken"]


def test_asked_twice_it_ends_within_its_micro_batch():
    told, clock = Told(), ManualClock(0)
    query = Query(active=True, left=1 << 30)
    watched = supervisor(told, clock)
    watched.add("p.a", lambda: query, lambda query: [])
    watched.step()
    watched.stop()
    watched.stop()
    watched.run()
    assert query.stopped
    assert told.lines == ["p.a stopping", "p.a stopped"]


def test_brokers_that_are_away_are_told_of_once_and_once_when_they_are_back():
    told, clock = Told(), ManualClock(0)
    batches: list[dict] = []
    healthy = Query(active=True)
    queries = iter([*(Query(ValueError(f"cannot reach a broker, attempt {n}")) for n in range(9)), healthy])
    watched = supervisor(told, clock)
    watched.add("p.a", lambda: next(queries), lambda query: batches)
    for _ in range(20):
        watched.step()
        clock.advance(UNREACHABLE_LONGEST_MS)
    assert told.lines == ["p.a waits: ValueError: cannot reach a broker, attempt 0"]
    # An idle query says so too, and that it could ask for the ends of its logs.
    batches.append({"runId": "r", "batchId": 0, "timestamp": "t", "numInputRows": 0})
    watched.step()
    assert told.lines[1:] == [f"p.a returned after {19 * UNREACHABLE_LONGEST_MS}", "p.a batch 0"]


def test_a_query_that_cannot_start_is_treated_as_one_that_failed():
    told, clock = Told(), ManualClock(0)

    def start():
        raise ValueError("OptionError: no such option")

    watched = supervisor(told, clock)
    watched.add("p.a", start, lambda query: [])
    assert not watched.step()
    assert told.lines == ["p.a gave up: ValueError: OptionError: no such option"]


def test_each_micro_batch_is_told_once():
    told, clock = Told(), ManualClock(0)
    batches = [{"runId": "r", "batchId": 0, "timestamp": "t0", "numInputRows": 1}]
    watched = supervisor(told, clock)
    watched.add("p.a", lambda: Query(active=True), lambda query: batches)
    for _ in range(3):
        watched.step()
    batches.append({"runId": "r", "batchId": 1, "timestamp": "t1", "numInputRows": 1})
    watched.step()
    assert told.lines == ["p.a batch 0", "p.a batch 1"]


def test_the_wait_doubles_up_to_its_limit_and_only_unknown_reasons_are_given_up():
    unreachable, unknown = Failure("away", Verdict.UNREACHABLE), Failure("?", Verdict.UNKNOWN)
    away, odd = Backoff(SeededRng(1)), Backoff(SeededRng(1))
    waits = [wait for wait in (away.failed(unreachable) for _ in range(20)) if wait is not None]
    assert len(waits) == 20
    assert all(500 <= wait <= UNREACHABLE_LONGEST_MS for wait in waits)
    assert waits[0] <= 1_000 < 2_000 <= waits[3]
    assert min(waits[7:]) >= UNREACHABLE_LONGEST_MS // 2
    tried = [odd.failed(unknown) for _ in range(ATTEMPTS_MAX + 1)]
    assert tried[-1] is None
    assert None not in tried[:-1]


def test_a_micro_batch_between_two_failures_ends_the_row_of_failures():
    backoff = Backoff(SeededRng(1))
    for _ in range(3 * ATTEMPTS_MAX):
        assert backoff.failed(Failure("?", Verdict.UNKNOWN)) is not None
        backoff.progressed()


def test_a_query_that_is_given_up_from_outside_ends_and_the_others_go_on():
    told, clock = Told(), ManualClock(0)
    running, other = Query(active=True), Query(active=True)
    watched = supervisor(told, clock)
    watched.add("p.a", lambda: running, lambda query: [])
    watched.add("p.b", lambda: other, lambda query: [])
    assert watched.step()
    for _ in range(2):
        watched.give_up("p.a", Failure("another driver has it", Verdict.HOPELESS))
        assert watched.step()
    assert running.stopped
    assert not other.stopped
    assert told.lines == ["p.a gave up: another driver has it"]
    other.isActive = False
    assert not watched.step()
    assert watched.run() == [("p.a", Failure("another driver has it", Verdict.HOPELESS))]


def test_a_query_that_waits_for_its_next_start_is_given_up_without_one():
    told, clock = Told(), ManualClock(0)
    watched = supervisor(told, clock)
    watched.add("p.a", lambda: Query(ValueError("broken")), lambda query: [])
    watched.step()
    watched.step()
    watched.give_up("p.a", Failure("another driver has it", Verdict.HOPELESS))
    clock.advance(10_000_000)
    assert not watched.step()
    assert told.lines[-1] == "p.a gave up: another driver has it"
    assert len(told.lines) == 2
