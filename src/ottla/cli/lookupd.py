"""`ottla lookupd`: find the servers of NSQ topics."""

import click

from ottla.cli.serve import ListenAddress


@click.command(name="lookupd")
@click.option(
    "--tcp",
    type=ListenAddress(4160),
    default="127.0.0.1:4160",
    show_default=True,
    help="The address at which brokers and nsqds register.",
)
@click.option(
    "--http",
    type=ListenAddress(4161),
    default="127.0.0.1:4161",
    show_default=True,
    help="The address at which clients and nsqadmin ask.",
)
@click.option("--broadcast-address", default="", help="The host that is told to brokers.  [the name of this host]")
def lookupd_command(tcp: tuple[str, int], http: tuple[str, int], broadcast_address: str) -> None:
    """Run a lookup service for NSQ clients until Ctrl-C or SIGTERM: what nsqlookupd is.

    Brokers register with the setting nsq.lookupd.tcp.addresses, nsqds with --lookupd-tcp-address. Clients get
    the address of --http. Nothing is kept on disk: run two or three of them, with all brokers registering at each.

    \b
    Examples:
      ottla lookupd
      ottla serve --nsq :4150 --nsq-http :4151 --set nsq.lookupd.tcp.addresses=127.0.0.1:4160
    """
    from ottla.server.lookupd import lookupd

    lookupd(tcp, http, broadcast_address, click.echo)
