"""`ottla client-metrics`: what clients have pushed of their metrics (KIP-714)."""

import click

from ottla.cli.connection import bootstrap_option, connected, run_until_done
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.time_text import time_text
from ottla.client.admin.pushed_metrics import CLIENT_METRICS_TOPIC, CODEC_NAMES, DECOMPRESSED_BYTES_MAX, PushedMetrics
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions
from ottla.client.consuming.offsets import OffsetAt
from ottla.client.errors import TopicNotFoundError
from ottla.model.errors import InvalidInputError
from ottla.protocol.otlp_metrics import MetricPoint, decode_metrics


@click.group("client-metrics")
def client_metrics() -> None:
    """Show the metrics that clients have pushed.

    Subscriptions decide which clients push which metrics. They are settings: ottla config set --client-metrics
    NAME metrics=org.apache.kafka.producer. interval.ms=30000. Pushed metrics are kept in the topic
    __client_metrics.
    """


@client_metrics.command("list")
@bootstrap_option
@click.option("--json", "as_json", is_flag=True, help="A JSON array of client instances.")
def list_instances(bootstrap: str, as_json: bool) -> None:
    """List the client instances that have pushed, with their latest push, the newest last.

    \b
    Examples:
      ottla client-metrics list
    """
    pushes = sorted(_latest(bootstrap).values(), key=lambda each: each.pushed_ms)
    if as_json:
        print_json([_described(each) for each in pushes])
        return
    rows = [
        (
            each.client_instance_id,
            each.client_id,
            f"{each.software_name} {each.software_version}",
            each.address,
            time_text(each.pushed_ms, "seconds"),
            len(each.metrics),
            each.compression,
            each.is_last,
        )
        for each in pushes
    ]
    columns = ["INSTANCE", "CLIENT", "SOFTWARE", "ADDRESS", "LAST PUSH", "BYTES", "COMPRESSION", "ENDED"]
    print_table(columns, rows, right=["BYTES"])


@client_metrics.command("show")
@bootstrap_option
@click.argument("instance", metavar="INSTANCE|CLIENT")
@click.option("-m", "--metric", "prefixes", metavar="PREFIX", multiple=True, help="Only metrics with such a name.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each client instance, in an array.")
def show(bootstrap: str, instance: str, prefixes: tuple[str, ...], as_json: bool) -> None:
    """Show the latest metrics of a client instance, or of all instances of a client id.

    A value of kind delta is the change since the last push.

    \b
    Examples:
      ottla client-metrics show billing --metric org.apache.kafka.consumer.
    """
    found = [each for each in _latest(bootstrap).values() if instance in (each.client_instance_id, each.client_id)]
    if not found:
        raise CommandError(
            f"no client instance or client {instance!r} has pushed metrics: see ottla client-metrics list"
        )
    found.sort(key=lambda each: each.pushed_ms)
    metrics = {each.client_instance_id: _metrics(each, prefixes) for each in found}
    if as_json:
        print_json(
            [
                {
                    **_described(each),
                    "metrics": [
                        {**point._asdict(), "attributes": dict(point.attributes)}
                        for point in metrics[each.client_instance_id]
                    ],
                }
                for each in found
            ]
        )
        return
    for index, each in enumerate(found):
        if index:
            click.echo()
        click.echo(
            f"{each.client_instance_id}  {each.client_id}  {each.software_name} {each.software_version}  "
            f"{each.address}:{each.port}  {time_text(each.pushed_ms, 'seconds')}"
        )
        rows = [
            (point.name, f"{point.value:.10g}", point.unit, point.kind, _attributes(point))
            for point in metrics[each.client_instance_id]
        ]
        print_table(["METRIC", "VALUE", "UNIT", "KIND", "OF"], rows, right=["VALUE"])


def _latest(bootstrap: str) -> "dict[str, PushedMetrics]":
    """The newest push of each client instance, by its id."""
    return run_until_done(_read(bootstrap))


async def _read(bootstrap: str) -> "dict[str, PushedMetrics]":
    latest: dict[str, PushedMetrics] = {}
    async with connected(bootstrap, lambda client: Consumer(client, ConsumerOptions())) as consumer:
        try:
            partitions = await consumer.partitions_of(CLIENT_METRICS_TOPIC)
        except TopicNotFoundError:
            return {}
        consumer.assign(partitions)
        ends = await consumer.list_offsets(dict.fromkeys(partitions, OffsetAt.LATEST))
        await consumer.seek_to(dict.fromkeys(partitions, OffsetAt.EARLIEST))
        while any((consumer.position(each) or 0) < ends[each].offset for each in partitions):
            for record in await consumer.poll():
                try:
                    push = PushedMetrics.of_record(record.key, record.value, record.headers, record.timestamp_ms)
                except InvalidInputError as error:
                    click.echo(f"ottla: {error}", err=True)
                    continue
                latest[push.client_instance_id] = push
    return latest


def _metrics(push: "PushedMetrics", prefixes: tuple[str, ...]) -> "list[MetricPoint]":
    """What is in a push, by name. Raises CommandError for what cannot be read."""
    from ottla.native import decompress

    try:
        codec = CODEC_NAMES.index(push.compression)
        points = decode_metrics(decompress(push.metrics, codec, max_bytes=DECOMPRESSED_BYTES_MAX))
    except InvalidInputError as error:
        raise CommandError(f"the push of {push.client_instance_id} cannot be read: {error}") from None
    return sorted(each for each in points if not prefixes or each.name.startswith(prefixes))


def _described(push: "PushedMetrics") -> dict[str, object]:
    return {
        "client_instance_id": push.client_instance_id,
        "client_id": push.client_id,
        "client_software_name": push.software_name,
        "client_software_version": push.software_version,
        "client_source_address": push.address,
        "client_source_port": push.port,
        "broker_id": push.broker_id,
        "pushed_ms": push.pushed_ms,
        "bytes": len(push.metrics),
        "compression": push.compression,
        "ended": push.is_last,
    }


def _attributes(point: "MetricPoint") -> str:
    return " ".join(f"{key}={value}" for key, value in point.attributes)
