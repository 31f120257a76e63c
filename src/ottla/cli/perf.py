"""`ottla perf`: how fast this machine, this client and a broker are together.

What is measured is Ottla's own client in Python beside the broker: the figures say how fast programs with it are,
and how the same cluster changes from one day to the next. They are not what the broker could give to a faster client;
for that, run Kafka's kafka-producer-perf-test and kafka-consumer-perf-test against it.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.client_properties import Kind, over_options
from ottla.cli.connection import bootstrap_option, connected, run_until_done
from ottla.cli.created_topic import tell_if_created
from ottla.cli.failure import CommandError
from ottla.cli.latencies import Latencies
from ottla.cli.output import print_json
from ottla.cli.progress import Progress
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions
from ottla.client.consuming.offsets import OffsetAt
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.clock import SystemClock, monotonic_ns
from ottla.runtime.rng import SystemRng
from ottla.runtime.timer import Timer

if TYPE_CHECKING:
    from ottla.client.producing.delivery import Delivery

_PAYLOADS = 64
"""How many different values there are: as much variety as a codec gets to see."""

_records_option = click.option(
    "-n", "--records", type=click.IntRange(1), default=100_000, show_default=True, help="The number of records."
)
_size_option = click.option(
    "-s",
    "--size",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="The size of each value in bytes; values are random.",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="A JSON object.")
_quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress.")


@click.group()
def perf() -> None:
    """Measure producing, consuming and latency with Ottla's own client.

    The figures include this client, the broker and the machines they run on.
    """


@perf.command("produce")
@bootstrap_option
@click.argument("topic")
@_records_option
@_size_option
@click.option("-r", "--rate", type=click.IntRange(1), help="The maximum records per second.  [unlimited]")
@_json_option
@_quiet_option
def perf_produce(
    bootstrap: str, topic: str, records: int, size: int, rate: int | None, as_json: bool, quiet: bool
) -> None:
    """Produce records, and report acknowledged records per second and latencies.

    Latency is the time from the call of send to the acknowledgement. Without --rate most of it is queueing in the
    client. Set producer settings with -X.

    \b
    Examples:
      ottla perf produce events -n 1000000 -s 100
      ottla perf produce events --rate 1000 -X linger.ms=0 -X acks=all
    """
    options = ProducerOptions(**over_options(Kind.PRODUCER))
    result = run_until_done(_produce(bootstrap, topic, records, size, rate, options, quiet=quiet))
    _show(result, as_json=as_json)


@perf.command("consume")
@bootstrap_option
@click.argument("topic")
@click.option("-n", "--records", type=click.IntRange(1), help="The number of records.  [all up to the current end]")
@click.option(
    "--timeout-ms",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="The maximum wait for the next record.",
)
@_json_option
@_quiet_option
def perf_consume(bootstrap: str, topic: str, records: int | None, timeout_ms: int, as_json: bool, quiet: bool) -> None:
    """Consume a topic from its beginning, and report records per second.

    Records are decoded, as for a program, without a group. Set consumer settings with -X.

    \b
    Example:
      ottla perf consume events -n 1000000
    """
    options = ConsumerOptions(**over_options(Kind.CONSUMER, auto_commit=False))
    result = run_until_done(_consume(bootstrap, topic, records, timeout_ms, options, quiet=quiet))
    _show(result, as_json=as_json)


@perf.command("latency")
@bootstrap_option
@click.argument("topic")
@click.option(
    "-n", "--records", type=click.IntRange(1), default=1_000, show_default=True, help="The number of records."
)
@_size_option
@_json_option
@_quiet_option
def perf_latency(bootstrap: str, topic: str, records: int, size: int, as_json: bool, quiet: bool) -> None:
    """Send records one at a time, and report the time until each is acknowledged and consumed.

    One record is in flight at a time, in partition 0: the figure is the round trip without queueing.

    \b
    Example:
      ottla perf latency events -s 100
    """
    options = ProducerOptions(**{"linger_ms": 0, **over_options(Kind.PRODUCER)})
    result = run_until_done(_latency(bootstrap, topic, records, size, options, quiet=quiet))
    _show(result, as_json=as_json)


async def _produce(
    bootstrap: str,
    topic: str,
    records: int,
    size: int,
    rate: int | None,
    options: "ProducerOptions",
    *,
    quiet: bool,
) -> dict[str, Any]:
    latencies, failures = Latencies(), list[Exception]()
    payloads = _payloads(size)
    timer = Timer(SystemClock(), asyncio.get_running_loop().call_later)

    def settled(sent_ns: int, delivery: "Delivery") -> None:
        latencies.add(monotonic_ns() - sent_ns)
        if delivery.error is not None:
            failures.append(delivery.error)

    progress = Progress("producing", records * size, quiet=quiet)
    async with connected(bootstrap, lambda client: Producer(client, options)) as producer:
        await tell_if_created(producer, topic)
        await producer.partitions(topic)
        begun_ns = monotonic_ns()
        with progress:
            for number in range(records):
                if rate is not None:
                    early_ms = (number * 1_000_000_000 // rate - (monotonic_ns() - begun_ns)) // 1_000_000
                    if early_ms > 0:
                        await timer.sleep(early_ms)
                sent_ns = monotonic_ns()
                delivery = await producer.send(topic, payloads[number % _PAYLOADS])
                delivery.add_done_callback(partial(settled, sent_ns))
                progress.add(size, 1)
                if failures:
                    break
            await producer.flush()
        elapsed_ns = monotonic_ns() - begun_ns
    timer.close()
    if failures:
        raise failures[0]
    return {
        **_throughput(records, records * size, elapsed_ns),
        "acks": options.acks.name.lower(),
        "latency_ms": latencies.summary(),
    }


async def _consume(
    bootstrap: str, topic: str, records: int | None, timeout_ms: int, options: "ConsumerOptions", *, quiet: bool
) -> dict[str, Any]:
    progress = Progress("consuming", None, quiet=quiet)
    count = size = 0
    async with connected(bootstrap, lambda client: Consumer(client, options)) as consumer:
        partitions = await consumer.partitions_of(topic)
        consumer.assign(partitions)
        await consumer.seek_to(dict.fromkeys(partitions, OffsetAt.EARLIEST))
        ends = {
            place: end.offset
            for place, end in (await consumer.list_offsets(dict.fromkeys(partitions, OffsetAt.LATEST))).items()
        }
        begun_ns = last_ns = monotonic_ns()
        with progress:
            while not (count >= records if records is not None else _has_reached(consumer, ends)):
                found = await consumer.poll(2_000, timeout_ms)
                if not found:
                    break
                last_ns = monotonic_ns()
                some = sum(len(each.value or b"") + len(each.key or b"") for each in found)
                count, size = count + len(found), size + some
                progress.add(some, len(found))
    if records is not None and count < records:
        raise CommandError(f"only {count} of {records} records arrived; none for {timeout_ms} ms")
    return _throughput(count, size, last_ns - begun_ns)


def _has_reached(consumer: Any, ends: dict[Any, int]) -> bool:
    return all((consumer.position(place) or 0) >= end for place, end in ends.items())


async def _latency(
    bootstrap: str, topic: str, records: int, size: int, options: "ProducerOptions", *, quiet: bool
) -> dict[str, Any]:
    place = TopicPartition(topic, 0)
    payloads = _payloads(size)
    acknowledged, consumed = Latencies(), Latencies()
    progress = Progress("measuring", records * size, quiet=quiet)
    async with (
        connected(bootstrap, lambda client: Producer(client, options)) as producer,
        connected(bootstrap, lambda client: Consumer(client, ConsumerOptions(auto_commit=False))) as consumer,
    ):
        await tell_if_created(producer, topic)
        await producer.partitions(topic)
        consumer.assign([place])
        await consumer.seek_to({place: OffsetAt.LATEST})
        begun_ns = monotonic_ns()
        with progress:
            for number in range(records):
                sent_ns = monotonic_ns()
                metadata = await producer.send_and_wait(topic, payloads[number % _PAYLOADS], partition=0)
                acknowledged.add(monotonic_ns() - sent_ns)
                while True:
                    found = await consumer.poll(500, 10_000)
                    if not found:
                        raise CommandError("a record that was acknowledged was not consumed within 10 s")
                    if any(each.offset >= metadata.offset for each in found):
                        break
                consumed.add(monotonic_ns() - sent_ns)
                progress.add(size, 1)
        elapsed_ns = monotonic_ns() - begun_ns
    return {
        **_throughput(records, records * size, elapsed_ns),
        "acks": options.acks.name.lower(),
        "acknowledged_ms": acknowledged.summary(),
        "consumed_ms": consumed.summary(),
    }


def _payloads(size: int) -> list[bytes]:
    rng = SystemRng()
    return [rng.token_bytes(size) for _ in range(_PAYLOADS)]


def _throughput(records: int, size: int, elapsed_ns: int) -> dict[str, Any]:
    seconds = elapsed_ns / 1_000_000_000
    return {
        "records": records,
        "bytes": size,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / seconds) if seconds else None,
        "megabytes_per_second": round(size / seconds / 1_000_000, 3) if seconds else None,
    }


def _show(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    rate, speed = result["records_per_second"], result["megabytes_per_second"]
    click.echo(
        f"{result['records']:,} records, {result['bytes']:,} bytes in {result['seconds']:.3f} s: "
        f"{'-' if rate is None else f'{rate:,}'} records/s, {'-' if speed is None else f'{speed:,.2f}'} MB/s"
    )
    for name, what in (
        ("latency_ms", "acknowledged after"),
        ("acknowledged_ms", "acknowledged after"),
        ("consumed_ms", "consumed after"),
    ):
        if name in result:
            shown = "  ".join(f"{key.replace('_', '.')} {value}" for key, value in result[name].items())
            click.echo(f"{what} (ms)  {shown}")
