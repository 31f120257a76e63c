"""Commits the progress of queries where the source cannot: see `pyspark_ottla.group_progress`."""

import json
import logging
import os
from collections.abc import Collection
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from ottla.client.errors import ClientError
from pyspark_ottla.clients import ThreadClient
from pyspark_ottla.connection import BOOTSTRAP, BOOTSTRAP_VARIABLE, Connection
from pyspark_ottla.log_client import GroupOffsets
from pyspark_ottla.offset_json import Offsets
from pyspark_ottla.options import Options
from pyspark_ottla.stream_offset import TOPIC_IDS, StreamOffset

logger = logging.getLogger("pyspark_ottla")


class ProgressListener(StreamingQueryListener):
    """Commits where the queries it was told of have ended, when they end."""

    def __init__(self, client: GroupOffsets, group_id: str, query: str | None, topics: Collection[str] | None) -> None:
        self._client = client
        self._group_id = group_id
        self._query = query
        self._topics = topics
        self._ends: dict[str, Offsets] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing: no micro-batch has ended yet."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: the progress of completed micro-batches was reported."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Remember where the micro-batch ended."""
        progress = event.progress
        if self._query is not None and progress.name != self._query:
            return
        for source in progress.sources:
            end = json.loads(source.endOffset) if source.endOffset else None
            if isinstance(end, dict) and TOPIC_IDS in end:
                offsets = StreamOffset.from_json(end).offsets
                wanted = {
                    each: at for each, at in offsets.items() if self._topics is None or each.topic in self._topics
                }
                self._ends.setdefault(str(progress.id), {}).update(wanted)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Commit it."""
        offsets = self._ends.pop(str(event.id), {})
        if offsets:
            try:
                self._client.commit_offsets(self._group_id, offsets)
            except ClientError as error:
                # An exception in a listener would be lost, and with it the calls of its neighbours.
                logger.warning("could not commit the offsets of group %r: %s", self._group_id, error)


def commit_progress(
    spark: SparkSession,
    group_id: str,
    bootstrap: str | None = None,
    *,
    query: str | None = None,
    topics: Collection[str] | None = None,
) -> StreamingQueryListener:
    """Commit where queries have ended for a consumer group, beside what option `groupId` commits while they run.

    `query` is the `queryName` of the one that the group belongs to; without it, all queries of the session. `topics`
    limits it to some topics, where a query reads several and each has a group of its own. `bootstrap` as in the option,
    or from the environment. Returns the listener, for `spark.streams.removeListener`. Raises OptionError.
    """
    given = {BOOTSTRAP: bootstrap or os.environ.get(BOOTSTRAP_VARIABLE, "")}
    connection = Connection.of(Options(given, given))
    listener = ProgressListener(ThreadClient(connection), group_id, query, topics)
    spark.streams.addListener(listener)
    return listener
