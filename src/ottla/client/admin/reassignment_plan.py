"""Where the replicas of partitions are to be: a plan for people to look at, and the file that Kafka's tool reads.

    {"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2,3,1],"log_dirs":["any","any","any"]}]}

The plan moves as little as it can: a replica stays where it is unless its broker is to have none, or has two more than
another. Then leaders are spread by the order of replicas, which moves nothing.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ottla.client.errors import InvalidOptionError
from ottla.model.topic_partition import TopicPartition

Assignment = dict[TopicPartition, tuple[int, ...]]
"""The replicas of partitions, the preferred leader of each first."""


def plan_reassignment(
    present: Mapping[TopicPartition, Sequence[int]],
    racks: Mapping[int, str | None],
    *,
    choices: Mapping[int, str | None] | None = None,
    replication_factor: int | None = None,
    balance: bool = True,
    busy: Mapping[int, int] | None = None,
) -> Assignment:
    """Spread partitions over the brokers in `racks`; without `replication_factor` each keeps the number it has.

    What is on one of them may stay there; what moves goes to one of `choices`, without which that is any of them.
    Without `balance` only what has to go from where it is moves. `busy` says how many replicas of other partitions
    brokers have, where a choice is free. Partitions that stay as they are are left out. Raises InvalidOptionError when
    there are too few brokers.
    """
    choices = racks if choices is None else choices
    load = Counter(dict.fromkeys(racks, 0))
    replicas = {
        place: _fill([each for each in had if each in racks][:wanted], wanted, place, racks, choices, load, busy or {})
        for place, had in sorted(present.items())
        for wanted in [replication_factor or len(had)]
    }
    if balance:
        _balance(replicas, racks, load)
    _spread_leaders(replicas)
    return {place: tuple(now) for place, now in replicas.items() if tuple(now) != tuple(present[place])}


def _fill(
    kept: list[int],
    wanted: int,
    place: TopicPartition,
    racks: Mapping[int, str | None],
    choices: Mapping[int, str | None],
    load: "Counter[int]",
    busy: Mapping[int, int],
) -> list[int]:
    there = len(choices.keys() | set(kept))
    if wanted > there:
        raise InvalidOptionError(f"{place} is to have {wanted} replicas, for which {there} brokers are too few")
    while len(kept) < wanted:
        used = Counter(racks[each] for each in kept)
        kept.append(
            min(
                (each for each in choices if each not in kept),
                key=lambda each: (used[racks[each]], load[each], busy.get(each, 0), each),
            )
        )
    load.update(kept)
    return kept


def _balance(
    replicas: Mapping[TopicPartition, list[int]], racks: Mapping[int, str | None], load: "Counter[int]"
) -> None:
    """Have brokers with two replicas more than another give one up, as long as that costs no spread over racks."""
    moved = True
    while moved:
        moved = False
        for partition in replicas.values():
            for index, broker in enumerate(partition):
                others = {racks[each] for each in partition if each != broker} - {None}
                choice = min(
                    (
                        each
                        for each in racks
                        if each not in partition and (racks[each] not in others or racks[broker] in others)
                    ),
                    key=lambda each: (load[each], each),
                    default=broker,
                )
                if load[broker] - load[choice] > 1:
                    partition[index] = choice
                    load[broker] -= 1
                    load[choice] += 1
                    moved = True


def _spread_leaders(replicas: Mapping[TopicPartition, list[int]]) -> None:
    """Have no broker be the preferred leader of two partitions more than another that could be instead."""
    led = Counter(partition[0] for partition in replicas.values() if partition)
    moved = True
    while moved:
        moved = False
        for partition in replicas.values():
            choice = min(range(len(partition)), key=lambda index: (led[partition[index]], index), default=0)
            if choice and led[partition[0]] - led[partition[choice]] > 1:
                led[partition[0]] -= 1
                led[partition[choice]] += 1
                partition.insert(0, partition.pop(choice))
                moved = True


def plan_text(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """A plan as Kafka's `kafka-reassign-partitions` reads it."""
    partitions = [
        {"topic": place.topic, "partition": place.partition, "replicas": list(replicas)}
        for place, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def parse_plan(text: str | bytes) -> Assignment:
    """The reverse of `plan_text`, also for a file of Kafka's. Raises InvalidOptionError that says what is wrong."""
    try:
        document = json.loads(text)
        if document.get("version", 1) != 1:
            raise InvalidOptionError(f"a reassignment of version {document['version']!r} is not known, only 1")
        listed = [
            (TopicPartition(_text(each["topic"]), _number(each["partition"])), tuple(map(_number, each["replicas"])))
            for each in document["partitions"]
        ]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidOptionError):
            raise
        raise InvalidOptionError(
            'not a reassignment: it is {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
        ) from error
    plan = dict(listed)
    for place, replicas in plan.items():
        if not replicas or len(set(replicas)) != len(replicas):
            raise InvalidOptionError(f"{place} is to have the replicas {list(replicas)}: at least one, none twice")
    if len(plan) < len(listed):
        raise InvalidOptionError(f"{_first_twice(place for place, _ in listed)} is reassigned twice")
    if not plan:
        raise InvalidOptionError("the reassignment names no partition")
    return plan


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise TypeError(value)
    return value


def _first_twice(places: Iterable[TopicPartition]) -> TopicPartition:
    seen: set[TopicPartition] = set()
    for place in places:
        if place in seen:
            return place
        seen.add(place)
    raise AssertionError("none is there twice")
