"""Writes audit records to their topic."""

from types import TracebackType
from typing import Self

from ottla.client.admin.admin import NewTopic
from ottla.client.blocking import BlockingClient
from ottla.client.errors import BrokerError, TopicNotFoundError
from ottla.client.producing.partitioner import partition_for_key
from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.pipelines.audit.report import Report

_TIMEOUT_MS = 5_000
"""Spark tells its listeners of one thing after the other: a broker that is away must not hold up the rest for long."""


class Publisher:
    """Call it with a report: it returns when all replicas in sync have the record. At least once. One thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._client = BlockingClient(bootstrap, client_id="ottla-audit", api_timeout_ms=_TIMEOUT_MS)
        self._topic = topic

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, report: Report) -> None:
        """Publish; the topic is created when it is not there. Raises ClientError."""
        count = self._partition_count()
        batch = build_batch([(report.at_ms, report.key, report.encode(), ())])
        self._client.produce_raw(self._topic, partition_for_key(report.key, count), batch)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _partition_count(self) -> int:
        try:
            found = self._client.metadata([self._topic], refresh=False)
        except TopicNotFoundError:
            try:
                self._client.create_topic(NewTopic(self._topic, partitions=1))
            except BrokerError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            found = self._client.metadata([self._topic])
        return len(found[self._topic].partitions)
