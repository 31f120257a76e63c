"""Draws what happened in a schedule so that a person can read it: time goes down, each node has a column.

    step  clients           broker 1          broker 2          metadata
       3     |--Produce p0-0--->|                 |                 |
       3     |           p0-0 at 0, epoch 0       |                 |
       5     |                  |<--Fetch 0, e0---|                 |

Messages are drawn where they arrive. The controller's decisions are under `metadata`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.replication.truncation import EpochEnd
from ottla.simulation import messages
from ottla.simulation.comparison import value_name
from ottla.simulation.messages import Message
from ottla.simulation.running import Result
from ottla.simulation.swarm import STEPS_MAX
from ottla.simulation.world import Event

WIDTH: Final = 30
ROUNDS_DRAWN: Final = 8
"""The number of drawn rounds after everything healed; later rounds repeat."""
_MARGIN: Final = 8


def draw(result: Result) -> str:
    """The drawing of a traced run."""
    assert result.world.trace is not None, "only a traced run can be drawn"
    swarm = result.world.swarm
    columns = swarm.broker_count + 2
    names = ["clients", *(f"broker {number}" for number in range(1, columns - 1)), "metadata"]
    rules = [
        f"min.insync.replicas={swarm.min_insync_replicas}",
        f"acknowledged when {'synced' if swarm.flush else 'written'}",
    ]
    if swarm.unclean:
        rules.append("unclean elections")
    lines = [
        f"{swarm.broker_count} brokers, {swarm.replica_count} replicas, {', '.join(rules)}",
        "",
        "step".ljust(_MARGIN) + "".join(name.center(WIDTH) for name in names),
    ]
    last = STEPS_MAX + ROUNDS_DRAWN
    for step, kind, *rest in result.world.trace:
        if kind == "everything heals":
            last = step + ROUNDS_DRAWN
        if step > last and kind != "violation":
            continue
        drawn = _line(columns, str(kind), tuple(rest))
        if drawn is not None:
            lines.append(f"{step:>5}".ljust(_MARGIN) + drawn)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _line(columns: int, kind: str, event: Event) -> str | None:
    if kind in ("deliver", "exchange", "answer"):
        return _arrow(columns, event[0], lost=False)
    if kind == "drop":
        return _arrow(columns, event[0], lost=True)
    if kind == "send":
        return None
    if kind == "decide":
        return _said(columns, columns - 1, _state_text(event[1], event[0]))
    if kind in ("everything heals", "violation"):
        text = event[0] if event else kind
        return f" {text} ".center(WIDTH * columns, "=")
    if kind == "links":
        cut = ", ".join(f"{_node(one)} to {_node(other)}" for one, other in event[0])
        return _said(columns, columns - 1, f"cut: {cut}" if cut else "all links carry")
    if kind == "acknowledged":
        return _said(columns, 0, f"{value_name(event[1])} acknowledged at {event[2]}")
    text = _TEXTS.get(kind)
    return _said(columns, event[0], kind if text is None else text(event[1:]))


_TEXTS: Final[dict[str, Callable[[Event], str]]] = {
    "lead": lambda said: f"LEADS epoch {said[1]}, ISR {_listed(said[2])}",
    "follow": lambda said: f"follows {said[2]}, epoch {said[1]}" if said[2] > 0 else f"no leader, epoch {said[1]}",
    "append": lambda said: f"{value_name(said[2])} at {said[1]}, epoch {said[3]}",
    "replicate": lambda said: f"has {said[1]} to {said[1] + said[2] - 1}",
    "cut": lambda said: f"CUTS from {said[1]} to {said[2]}",
    "high watermark": lambda said: f"HIGH WATERMARK {said[1]}",
    "controller": lambda said: f"is controller, epoch {said[0]}",
    "register": lambda said: f"registered, broker epoch {said[0].broker_epoch}",
    "start": lambda said: f"STARTS, broker epoch {said[0]}",
    "renew": lambda said: f"new session, broker epoch {said[0]}",
    "fence": lambda _: "is fenced",
    "unfence": lambda _: "is unfenced",
    "stop": lambda _: "is to stop",
    "propose": lambda said: f"wants the ISR {_listed(said[1])}",
    "read": lambda said: f"{said[1]} to {said[2] - 1} are read",
    "kill": lambda _: "KILLED",
    "power cut": lambda _: "POWER CUT",
    "disk lost": lambda _: "DISK LOST",
    "pause": lambda _: "PAUSED",
    "stall": lambda _: "reads no metadata",
    "reads on": lambda _: "reads metadata again",
}


def _node(number: int) -> str:
    return "the store" if number == messages.STORE else f"broker {number}"


def _listed(members: Iterable[int]) -> str:
    return " ".join(map(str, members)) or "nobody"


def _state_text(state: PartitionState, partition: int) -> str:
    leader = f"leader {state.leader}" if state.leader >= 0 else "no leader"
    text = f"p{partition}: {leader}, e{state.leader_epoch}, ISR {_listed(state.isr)}"
    if state.elr:
        text += f", ELR {_listed(state.elr)}"
    return f"{text} (#{state.partition_epoch})"


def _column(columns: int, node: int) -> int:
    """Of a node: clients stand left of the brokers, the store right of them."""
    if node == messages.STORE:
        return columns - 1
    return node if node < columns - 1 else 0


def _said(columns: int, column: int, text: str) -> str:
    cells = ["|".center(WIDTH)] * columns
    cells[column] = text.center(WIDTH)
    return "".join(cells)


def _arrow(columns: int, message: Message, *, lost: bool) -> str:
    start, end = (_column(columns, node) for node in message[1:3])
    label = _label(message) + (" LOST" if lost else "")
    if start == end:
        return _said(columns, start, f"(itself: {label})")
    line = list("".join(["|".center(WIDTH)] * columns))
    left, right = sorted((start, end))
    bar = "|".center(WIDTH).index("|")
    left, right = left * WIDTH + bar + 1, right * WIDTH + bar
    line[left:right] = label[: right - left - 2].center(right - left, "-")
    if end > start:
        line[right - 1] = "x" if lost else ">"
    else:
        line[left] = "x" if lost else "<"
    return "".join(line)


def _label(message: Message) -> str:
    return _LABELS[message[0]](message)


_LABELS: Final[dict[int, Callable[[Message], str]]] = {
    messages.FETCH: lambda said: f"Fetch {said[6]}, e{said[5]}, last e{said[7]}",
    messages.FETCHED: lambda said: _content(said[6], said[5], said[7]),
    messages.ALTER: lambda said: f"ISR? {_listed(member for member, _ in said[7])} (#{said[6]})",
    messages.ALTERED: lambda said: "ISR: " + _outcome(said[6]),
    messages.PRODUCE: lambda said: f"Produce {value_name(said[4])}",
    messages.PRODUCED: lambda said: f"{value_name(said[4])} at {said[5]}" if said[5] >= 0 else "refused",
    messages.APPEND: lambda said: f"decision of epoch {said[4]}",
    messages.LOOK: lambda _: "newest commit?",
    messages.LOOKED: lambda said: f"commit {said[5]}" if said[5] >= 0 else "no commit known",
    messages.CLAIMED_FETCH: lambda said: f"Fetch {said[7]} as broker {said[4]}",
}


def _content(content: object, offset: int, high_watermark: int) -> str:
    if isinstance(content, ErrorCode):
        return content.name
    if isinstance(content, EpochEnd):
        return f"e{content.epoch} ends at {content.end_offset}"
    count = len(content)  # type: ignore[arg-type]
    return f"{offset} to {offset + count - 1}, hw {high_watermark}" if count else f"nothing new, hw {high_watermark}"


def _outcome(outcome: ErrorCode | PartitionState) -> str:
    return outcome.name if isinstance(outcome, ErrorCode) else _listed(outcome.isr)
