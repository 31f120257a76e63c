"""Whoever reads a group without being a member of it is found at every broker."""

from typing import Any, cast

import pytest

from ottla.broker.group_consumers import GroupConsumers
from ottla.client.errors import ClientError
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from tests.unit.metadata.images import image_of


class Remote:
    """Brokers with so many readers each; None for one that does not answer."""

    def __init__(self, readers: dict[int, int | None]) -> None:
        self.readers = readers

    async def consumers(self, broker_id: int, group_id: str) -> int:
        found = self.readers[broker_id]
        if found is None:
            raise ClientError("is not reached")
        return found if group_id == "archive" else 0


@pytest.mark.parametrize(
    ("here", "others", "error"),
    [
        (0, {2: 0, 3: 0}, ErrorCode.NONE),
        (1, {2: None, 3: None}, ErrorCode.NON_EMPTY_GROUP),
        (0, {2: 0, 3: 2}, ErrorCode.NON_EMPTY_GROUP),
        (0, {2: None, 3: 0}, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_readers_are_looked_for_at_every_broker(
    here: int, others: dict[int, int | None], error: ErrorCode
) -> None:
    image = image_of(brokers=(1, 2, 3))
    consumers = GroupConsumers(lambda group_id: here, lambda: image, 1, cast("Any", Remote(others)))

    told = ErrorCode.NONE
    try:
        await consumers.require_none("archive")
    except ApiError as refused:
        told = refused.code

    assert told is error
