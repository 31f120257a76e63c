"""`ottla dlq redrive`: send dead letters back to where they came from."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.committed_reader import committed_reader
from ottla.cli.connection import bootstrap_option, connected, with_cluster
from ottla.cli.dlq_filter import filter_of, filter_options
from ottla.cli.output import print_json, print_table
from ottla.cli.progress import Progress
from ottla.client.producing.producer import Producer
from ottla.pipelines.dead_letters.redrive import Rules
from ottla.pipelines.dead_letters.redriving import CHUNK_RECORDS, Letters, Pace, Tally, preview, producer_options
from ottla.pipelines.dead_letters.redriving import redrive as redrive_letters
from ottla.runtime.clock import SystemClock
from ottla.runtime.timer import Timer

if TYPE_CHECKING:
    from ottla.client.consuming.consumer import Consumer
    from ottla.client.io.cluster import Cluster
    from ottla.pipelines.dead_letters.filters import Filter


@click.command("redrive")
@bootstrap_option
@click.argument("topic")
@filter_options
@click.option("--into", metavar="TOPIC", help="Send all letters to this topic.  [the source topics]")
@click.option("-n", "--count", type=click.IntRange(1), help="The maximum number of letters.")
@click.option("--rate", metavar="N", type=click.IntRange(1), help="The maximum number of letters per second.")
@click.option(
    "--max-replays",
    metavar="N",
    type=click.IntRange(1, 1_000_000),
    default=3,
    show_default=True,
    help="Skip letters that were sent back this many times and refused each time.",
)
@click.option("--execute", is_flag=True, help="Execute; without it, only show what would be done.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document of the result or plan.")
def redrive(
    bootstrap: str,
    topic: str,
    into: str | None,
    count: int | None,
    rate: int | None,
    max_replays: int,
    execute: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Send dead letters back to their source topics and partitions, exactly once.

    Key, value, headers and timestamp are those of the record; one header counts how often it was sent back. Each
    transaction also stores which letters it sent: you can interrupt and repeat the command, with any filter, and no
    letter is lost or sent twice. Letters stay in their topic until `ottla dlq purge --redriven`.

    \b
    Examples:
      ottla dlq redrive flights.dead-letters --step sane
      ottla dlq redrive flights.dead-letters --step sane --rate 500 --execute
      ottla dlq redrive dlq.jobs --where "attempts < 10 AND value.customer = 'c17'" --execute
    """
    wanted = filter_of(**chosen)
    rules = Rules(letters_topic=topic, into=into, max_replays=max_replays)

    async def action(cluster: "Cluster") -> "Tally":
        consumer: Consumer
        async with committed_reader(bootstrap) as consumer:
            letters = Letters(cluster, consumer, topic)
            if execute:
                return await _execute(bootstrap, cluster, letters, wanted, rules, count, rate)
            await letters.open()
            return await preview(cluster, letters, wanted, rules, count)

    _report(with_cluster(bootstrap, action), execute=execute, as_json=as_json)


async def _execute(
    bootstrap: str,
    cluster: "Cluster",
    letters: "Letters",
    wanted: "Filter",
    rules: "Rules",
    count: int | None,
    rate: int | None,
) -> "Tally":
    tally = Tally()
    options = producer_options(letters.topic)
    # A slow rate is kept with small transactions, or it would come in bursts.
    chunk = CHUNK_RECORDS if rate is None else max(1, min(rate, CHUNK_RECORDS))
    with Progress("sending back", None) as progress:
        async with connected(bootstrap, lambda client: Producer(client, options)) as producer:
            steps = redrive_letters(
                cluster,
                producer,
                letters,
                wanted,
                rules,
                count=count,
                pace=None if rate is None else _pace(rate),
                chunk_records=chunk,
            )
            async for tally in steps:
                progress.add(0, tally.total - progress.records)
    return tally


def _pace(rate: int) -> "Pace":
    """Waits until so many letters may have been sent."""
    clock = SystemClock()
    timer = Timer(clock, asyncio.get_running_loop().call_later)
    begun_ms = clock.monotonic_ms()

    async def pace(sent: int) -> None:
        early_ms = sent * 1_000 // rate - (clock.monotonic_ms() - begun_ms)
        if early_ms > 0:
            await timer.sleep(early_ms)

    return pace


def _report(tally: "Tally", *, execute: bool, as_json: bool) -> None:
    sent = [{"topic": topic, "step": step or None, "letters": count} for (topic, step), count in tally.sent.items()]
    refused = [
        {"why": why, "letters": count, "first": message} for (why, message), count in sorted(tally.refused.items())
    ]
    if as_json:
        print_json(
            {
                "executed": execute,
                "sent": sent,
                "refused": refused,
                "sent_before": tally.done_before,
                "not_chosen": tally.not_meant,
            }
        )
        return
    print_table(["TO", "OF STEP", "LETTERS"], [tuple(each.values()) for each in sent], right=["LETTERS"])
    for each in refused:
        click.echo(f"{each['letters']} stay, {each['why']}: {each['first']}", err=True)
    if not tally.total and tally.not_meant:
        click.echo(f"{tally.not_meant} records are no dead letters, or not chosen by the options", err=True)
    if execute:
        click.echo(f"sent back {_letters(tally.total)}")
    else:
        click.echo(f"would send back {_letters(tally.total)}; nothing was sent: add --execute to do it")


def _letters(count: int) -> str:
    return f"{count} letter" if count == 1 else f"{count} letters"
