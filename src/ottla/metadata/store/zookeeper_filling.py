"""Fills an empty node of ZooKeeper with the metadata of a cluster that was elsewhere."""

from typing import Final

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from ottla.metadata.store import zookeeper_nodes as nodes
from ottla.metadata.store.interface import SESSION_TIMEOUT_MS, StoreError
from ottla.metadata.store.metadata_file import MovedMetadata
from ottla.metadata.store.zookeeper import first_nodes
from ottla.metadata.store.zookeeper_client import Operation, Refusal, ZooKeeperClient
from ottla.metadata.store.zookeeper_security import NO_SECURITY, ZooKeeperSecurity
from ottla.runtime.tasks import Tasks

_NO_WRITER: Final = bytes(16)


async def fill_zookeeper(
    hosts: str, root: str, moved: MovedMetadata, tasks: Tasks, security: ZooKeeperSecurity = NO_SECURITY
) -> None:
    """Write it, so that brokers see all of it or are told to wait. Raises StoreError."""
    client = ZooKeeperClient(hosts, root, SESSION_TIMEOUT_MS, tasks, security=security)
    try:
        await client.connect(SESSION_TIMEOUT_MS / 1000)
        await client.ensure_root()
        await _begin(client, f"{hosts}{root}", moved)
        await _fill(client, moved)
    except (KazooException, Refusal) as error:
        raise StoreError(f"{hosts}{root}: {error!r}") from error
    finally:
        await client.close()


async def _begin(client: ZooKeeperClient, where: str, moved: MovedMetadata) -> None:
    try:
        await client.commit(*first_nodes(moved.cluster_id, nodes.LAYOUT_BEING_FILLED))
    except Refusal as refusal:
        if not isinstance(refusal.reason, NodeExistsError):
            raise
    try:
        data, _ = await client.get(nodes.CLUSTER_ID)
        layout, _ = await client.get(nodes.LAYOUT)
    except NoNodeError:
        raise StoreError(f"{where} is another software's: name a node of its own") from None
    if nodes.decode_cluster_id(data) != moved.cluster_id:
        raise StoreError(f"{where} has the metadata of another cluster: name another node")
    if nodes.decode_number(layout) != nodes.LAYOUT_BEING_FILLED:
        raise StoreError(f"{where} has the metadata of this cluster already")


async def _fill(client: ZooKeeperClient, moved: MovedMetadata) -> None:
    pieces = nodes.encode_batch(moved.records, moved.controller_epoch, _NO_WRITER)
    name = f"{moved.end_offset:020}-moved"
    for path, piece in (
        (f"{nodes.SNAPSHOTS}/{name}", b""),
        *((f"{nodes.SNAPSHOTS}/{name}/{number}", piece) for number, piece in enumerate(pieces)),
        *(((nodes.CLUSTER_SECRET, moved.secret),) if moved.secret is not None else ()),
    ):
        try:
            await client.create(path, piece)
        except NodeExistsError:
            await client.commit(Operation("set_data", path, piece))
    elected = nodes.ElectionNode(moved.controller_id, moved.controller_broker_epoch, moved.controller_epoch)
    await client.commit(
        Operation("set_data", nodes.BROKER_EPOCH, nodes.encode_number(moved.broker_epoch)),
        Operation("set_data", nodes.CONTROLLER_EPOCH, nodes.encode_number(moved.controller_epoch)),
        Operation("set_data", nodes.ELECTION, elected.encode()),
        Operation("set_data", nodes.SNAPSHOT, nodes.SnapshotPointer(moved.end_offset, name, len(pieces)).encode()),
        Operation("set_data", nodes.END, nodes.encode_number(moved.end_offset)),
        Operation("set_data", nodes.LAYOUT, nodes.encode_number(nodes.LAYOUT_VERSION)),
    )
