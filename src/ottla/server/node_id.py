"""Which number a broker has when nobody says: that of its data directory, else one that no broker has had.

1. `node.id` is set: that one.
2. `meta.properties` of the data directory names one: that one, for ever.
3. The metadata lies in the data directory, so that this broker is the first: the setting's default.
4. The metadata is shared: one above the highest that a broker or a replica has. Two brokers that choose at the same
   time may choose the same; the store refuses one of them (`BrokerIdTakenError`), which chooses again.
"""

from pathlib import Path

from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import topic_id_text
from ottla.metadata.store.interface import MetadataStore
from ottla.model.errors import InvalidInputError
from ottla.runtime.disk import Disk
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.storage.file_names import META_PROPERTIES
from ottla.storage.meta_properties import parse_meta_properties


def kept_node_id(data_dir: Path, disk: Disk) -> int | None:
    """The number a data directory belongs to; None for a new one, and for one whose file nobody can read. BLOCKING."""
    try:
        return parse_meta_properties(disk.read_bytes(str(data_dir / META_PROPERTIES))).node_id
    except (FileNotFoundError, NotADirectoryError, InvalidInputError):
        return None


async def free_node_id(store: MetadataStore, tasks: Tasks, rng: Rng) -> int:
    """A number that no broker of a cluster has. Opens the store and closes it. Raises StoreError."""
    try:
        cluster_id = await store.open(topic_id_text(rng.uuid()))
        image = await MetadataLoader(store, tasks).load(cluster_id)
        live = await store.live_brokers()
    finally:
        await store.close()
    return 1 + max((0, *image.brokers, *image.replica_counts, *(broker.broker_id for broker in live)))
