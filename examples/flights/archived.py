"""The topics as an archive, and the archive as the topics of another broker."""

import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest
from multiprocessing import get_context
from typing import Any

from examples.flights.broker import Broker
from examples.flights.files import DemoFiles
from examples.flights.ottla_command import ottla
from examples.flights.read_back import records


@dataclass(frozen=True, slots=True)
class Archived:
    """What `ottla archive` made."""

    topics: int
    records: int
    bytes: int
    differences: list[str]


def archive(bootstrap: str, files: DemoFiles) -> Archived:
    """Archive all topics, and have what was written read again."""
    where = str(files.archive)
    ottla("archive", "run", where, "--bootstrap", bootstrap)
    verified = json.loads(ottla("archive", "verify", where, "--json", may_fail=True).stdout)
    damage = [f"archive: {each['topic']}-{each['partition']}: {line}" for each in verified for line in each["damage"]]
    return Archived(
        len({each["topic"] for each in verified}),
        sum(each["rows"] for each in verified),
        sum(each["bytes"] for each in verified),
        damage,
    )


def restored(bootstrap: str, files: DemoFiles, topics: Sequence[str]) -> list[str]:
    """Restore the archive into a broker that is empty; where its records differ from those of the first one."""
    ottla("archive", "restore", str(files.archive), "--data", str(files.restored_data))
    # Each broker is read in a process of its own: a million records twice take a core some ten seconds.
    with (
        Broker(files.restored_data, files.restored_log) as broker,
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes,
    ):
        one, other = (processes.submit(_digests, each, topics) for each in (bootstrap, broker.bootstrap))
        unequal = [topic for topic in topics if one.result()[topic] != other.result()[topic]]
        found = [each for topic in unequal for each in _differences(bootstrap, broker.bootstrap, topic)]
    return found or [f"restored: {topic}: was another one for a moment" for topic in unequal]


def _digests(bootstrap: str, topics: Sequence[str]) -> dict[str, bytes]:
    """Of each topic a digest of all that is in its records, and of where they are."""
    found = {}
    for topic in topics:
        digest = blake2b()
        for message in records(bootstrap, topic):
            digest.update(repr(_whole(message)).encode())
        found[topic] = digest.digest()
    return found


def _differences(one: str, other: str, topic: str) -> list[str]:
    """The first record that is not the same on both, if there is one: with it the rest differs, too."""
    for here, there in zip_longest(records(one, topic), records(other, topic)):
        was, is_ = _whole(here), _whole(there)
        if was != is_:
            return [f"restored: {topic}: {_shown(was)} became {_shown(is_)}"]
    return []


def _whole(message: Any) -> tuple[Any, ...] | None:
    if message is None:
        return None
    place = message.partition(), message.offset()
    return *place, message.timestamp(), message.key(), message.value(), message.headers()


def _shown(record: tuple[Any, ...] | None) -> str:
    return "no record" if record is None else f"partition {record[0]}, offset {record[1]}: {record[2:]}"
