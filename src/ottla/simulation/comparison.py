"""Compares what clients saw with the final logs.

Acknowledged and read records exist, once and in order, and all replicas are equal. Records that were lost because more
faults occurred than the cluster promises to tolerate are excluded (`Ledger.lost`).
"""

from collections.abc import Iterable

from ottla.simulation.ledger import Ledger, violated
from ottla.simulation.producer_batches import VALUES_MAX
from ottla.simulation.world import COORDINATOR, World


def compare(world: World) -> None:
    """Compare, after all work has stopped. Raises Violation."""
    for partition, state in enumerate(world.image.partitions):
        ledger = world.ledgers[partition]
        records = world.brokers[state.leader].replicas[partition].records
        for broker_id in state.replicas:
            if world.brokers[broker_id].replicas[partition].records != records:
                violated("replicas are equal", f"broker {broker_id} and {state.leader}")
        if ledger.committed != records:
            violated("what is committed stays", f"{len(ledger.committed)} records, {len(records)} in the end")
        final = [value for _, value in records]
        read = [(value, offset) for of, offset, value in world.consumer.read if of == partition]
        _compare_offsets("what is read stays", read, final, ledger)
        client = world.coordinator_client
        if partition == COORDINATOR:
            _compare_offsets("what is acknowledged stays", client.acknowledged, final, ledger)
            _compare_seen(client.seen, final, ledger)
            continue
        for producer in world.producers:
            _compare_offsets("what is acknowledged stays", producer.acknowledged, final, ledger)
        if world.swarm.idempotent:
            _compare_order(final)


def _compare_offsets(rule: str, known: Iterable[tuple[int, int]], final: list[int], ledger: Ledger) -> None:
    count = len(final)
    for value, offset in known:
        if (offset >= count or final[offset] != value) and value not in ledger.lost:
            violated(rule, f"value {value_name(value)} at offset {offset}")


def _compare_seen(seen: Iterable[int], final: list[int], ledger: Ledger) -> None:
    present = {*final, *ledger.lost}
    for number in seen:
        if number not in present:
            violated("what a coordinator says is committed", f"number {number}")


def _compare_order(final: list[int]) -> None:
    newest: dict[int, int] = {}
    for offset, value in enumerate(final):
        producer, number = divmod(value, VALUES_MAX)
        before = newest.get(producer, -1)
        if number <= before:
            violated("once, and in order", f"value {value_name(value)} at offset {offset} after number {before}")
        newest[producer] = number


def value_name(value: int) -> str:
    """The producer of a value, and its number, as text."""
    producer, number = divmod(value, VALUES_MAX)
    return f"p{producer}-{number}"
