"""Commits the progress of a query for a consumer group, so that tools that show the lag of groups show it.

Spark's checkpoint stays authoritative. The committed offsets are a copy, made after a micro-batch has ended. The
source commits when Spark asks it for the next micro-batch. Spark does so after each one, and after the last of
`availableNow` too. It does not ask again after `trigger(once=True)`, or if a query stops between two triggers. Only
then a listener is necessary: `commit_progress`.
"""

import logging

from ottla.client.errors import BrokerError, ClientError
from ottla.model.error_code import ErrorCode
from pyspark_ottla.log_client import GroupOffsets
from pyspark_ottla.offset_json import Offsets
from pyspark_ottla.options import OptionError

logger = logging.getLogger("pyspark_ottla")


class GroupProgress:
    """Commits how far one query is, for a group that has no members: a group belongs to one query."""

    def __init__(self, client: GroupOffsets, group_id: str) -> None:
        self._client = client
        self._group_id = group_id
        self._committed: Offsets | None = None

    def done(self, offsets: Offsets) -> None:
        """Commit these offsets: all records before them have been processed.

        The first commit of a query says whether the group can be used: raises OptionError when it has members, and
        ClientError. One that fails later is a warning: the records are processed all the same.
        """
        if offsets == self._committed or not offsets:
            return
        try:
            self._client.commit_offsets(self._group_id, offsets)
        except ClientError as error:
            if self._committed is None:
                if isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                    raise OptionError(
                        f"option groupId: group {self._group_id!r} has members that consume with it; stop them, or"
                        " give this query a group of its own"
                    ) from None
                raise
            logger.warning("could not commit the offsets of group %r: %s", self._group_id, error)
        self._committed = dict(offsets)
