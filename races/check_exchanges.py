"""Every request is answered, once, in order, with a code that Kafka knows there, and connections stay."""

from collections import defaultdict
from collections.abc import Iterator

from ottla.simulation.anomaly import Anomaly, Violation
from races.history import ConnectionLog, End, Exchange, History
from races.kafka_errors import is_expected, name_of

PATIENCE_S = 30.0
"""How long a request may take beyond what it asks the broker to wait. The machine may be busy with other things."""

SPINS_MIN = 30
"""So many turns in a row without news, each far too early, are no accident."""


def check_exchanges(history: History) -> Iterator[Violation]:
    """What is wrong with requests and answers, whatever they are about."""
    for connection in history.connections:
        yield from _check_answers(connection, history)
        yield from _check_end(connection, history)
        for exchange in connection.exchanges:
            yield from _check_errors(connection, exchange)
    yield from _check_sessions(history)


def _name(connection: ConnectionLog, exchange: Exchange) -> str:
    about = f" of {exchange.about}" if exchange.about else ""
    return f"{connection.name} #{exchange.number} {exchange.api} v{exchange.version}{about}"


def _check_answers(connection: ConnectionLog, history: History) -> Iterator[Violation]:
    asked = [exchange.number for exchange in connection.exchanges]
    for index, number in enumerate(connection.received):
        if index >= len(asked) or asked[index] != number:
            due = asked[index] if index < len(asked) else "nothing"
            where = f"{connection.name}: the answer to #{number} came, due was {due}"
            yield Violation(Anomaly.OUT_OF_ORDER, where, connection.opened_at)
            break
    for text in connection.unreadable:
        yield Violation(Anomaly.UNREADABLE, f"{connection.name}: {text}", connection.opened_at)
    end = min(connection.ended_at, history.ended_at)
    for exchange in connection.exchanges:
        waited_s = end - exchange.sent_at
        if exchange.number not in connection.received and waited_s > exchange.wait_s + PATIENCE_S:
            where = (
                f"{_name(connection, exchange)}, and {_behind(connection, exchange)} behind it, for {waited_s:.0f} s"
            )
            yield Violation(Anomaly.UNANSWERED, where, exchange.sent_at)
            break  # those behind it wait for it


def _behind(connection: ConnectionLog, exchange: Exchange) -> int:
    return sum(each.sent_at >= exchange.sent_at for each in connection.exchanges) - 1


def _check_end(connection: ConnectionLog, history: History) -> Iterator[Violation]:
    if connection.end is not End.BROKERS or connection.may_be_closed:
        return
    at = connection.ended_at
    if any(each.begun_at <= at <= each.ended_at for each in history.outages):
        return
    waiting = [each for each in connection.exchanges if each.number not in connection.received]
    text = ", ".join(f"#{each.number} {each.api} v{each.version}" for each in waiting[:3]) or "nothing"
    yield Violation(Anomaly.CLOSED, f"{connection.name}: {len(waiting)} requests waited: {text}", at)


def _check_errors(connection: ConnectionLog, exchange: Exchange) -> Iterator[Violation]:
    for code in exchange.errors:
        if not is_expected(exchange.api, code, exchange.errors):
            yield Violation(Anomaly.ERROR, f"{_name(connection, exchange)}: {name_of(code)}", exchange.sent_at)


def _check_sessions(history: History) -> Iterator[Violation]:
    in_a_row: dict[str, int] = defaultdict(int)
    for turn in history.session_turns:
        is_early = turn.answered_at - turn.asked_at < turn.max_wait_s / 2
        in_a_row[turn.session] = in_a_row[turn.session] + 1 if is_early and not turn.has_news else 0
        if in_a_row[turn.session] == SPINS_MIN:
            where = f"{turn.session}: {SPINS_MIN} answers in a row, the wait was to be {turn.max_wait_s} s"
            yield Violation(Anomaly.SPINS, where, turn.asked_at)
