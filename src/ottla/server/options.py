"""What `ottla serve` was asked for."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

Address = tuple[str, int]
"""Host and port."""


class ServeOptions(Struct, frozen=True):
    """The command line of `ottla serve`, checked for form.

    `settings` are broker settings by Kafka's names, from `--config` and `--set`, not yet checked for meaning; the
    others stand over them. `kafka` is where Kafka clients are served (port 0: any free one); `advertise` is what they
    are told to connect to, None for the address by which each of them came. `nsq` and `redis` are where NSQ and Redis
    clients are served, and `nsq_http` nsqd's HTTP API, None for what the settings say. `metadata` is where the metadata
    of the cluster is kept (`ottla.metadata.store.location`), None for the data directory. `brokers` is how many run in
    this process, `processes` how many processes run a broker each; at most one of them is above 1. `log_flags` is the
    part of the command line that is about the log, for those processes.
    """

    data_dir: Path | None = None
    kafka: Address | None = None
    advertise: Address | None = None
    nsq: Address | None = None
    nsq_http: Address | None = None
    redis: Address | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    metadata: str | None = None
    brokers: int = 1
    processes: int = 1
    log_flags: tuple[str, ...] = ()
