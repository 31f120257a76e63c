"""How brokers ask each other for delivery states."""

from typing import Any, cast
from uuid import UUID

from ottla.client.errors import ConnectionLostError
from ottla.peers.broker_channels import SHARE_STATE, BrokerChannels
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import WriteState
from ottla.queues.share_states import StateChannel

KEY = ShareKey("g", UUID(int=1), 0)


class Channels:
    """Nobody answers."""

    def __init__(self) -> None:
        self.lanes: list[str] = []

    async def request(self, broker_id: int, request: object, response: object, **more: Any) -> Any:
        self.lanes.append(more["lane"])
        raise ConnectionLostError("nobody is there")


async def test_states_are_asked_for_on_a_lane_where_no_answer_waits_for_another_broker() -> None:
    channels = Channels()
    states = StateChannel(cast("BrokerChannels", channels))
    for asking in (
        states.initialize(2, KEY, 0, 0),
        states.read(2, KEY, 0),
        states.write(2, WriteState(KEY, 0, 0, 0, 0, ())),
        states.delete(2, KEY),
        states.summary(2, KEY),
    ):
        try:
            await asking
        except ConnectionLostError:
            continue
        raise AssertionError("it was answered")
    assert channels.lanes == [SHARE_STATE] * 5
