"""A share group that NSQ clients read is not empty: it cannot be deleted or moved, but for what NSQ allows itself."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Any
from uuid import uuid4

from ottla.model.error_code import ErrorCode
from ottla.protocol.messages import alter_share_group_offsets, delete_groups, delete_share_group_offsets
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.hostile.raw_peer import RawPeer
from tests.system.nsq_client import NsqClient
from tests.system.test_nsq import LISTENERS, address, http_address


def asked_to_change(peer: RawPeer, topic: str, group: str) -> list[int]:
    """What a broker answers to who moves a group, forgets its offsets, deletes it."""
    row = alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(0, 0)
    moved = alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(topic, (row,))
    forgotten = delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic)
    alter = peer.ask(alter_share_group_offsets.AlterShareGroupOffsetsRequest(group, (moved,)), 0)
    forget = peer.ask(delete_share_group_offsets.DeleteShareGroupOffsetsRequest(group, (forgotten,)), 0)
    return [alter.error_code, forget.error_code, deleted(peer, group)]


def deleted(peer: RawPeer, group: str) -> int:
    """What a broker answers to who deletes a group."""
    response: Any = peer.ask(delete_groups.DeleteGroupsRequest((group,)), 2)
    return int(response.results[0].error_code)


def test_a_group_that_nsq_clients_read_is_not_empty(tmp_path: Path) -> None:
    topic = f"clicks-{uuid4().hex[:8]}"
    with BrokerProcess(tmp_path, LISTENERS) as broker:
        peer = RawPeer(broker.port)
        client = NsqClient(address(broker)).subscribe(topic, "archive", 10)
        publisher = NsqClient(address(broker))
        publisher.publish(topic, b"one")
        assert client.message().body == b"one"
        assert asked_to_change(peer, topic, "archive") == [ErrorCode.NON_EMPTY_GROUP] * 3

        api = http.client.HTTPConnection(*http_address(broker), timeout=60)
        api.request("POST", f"/channel/empty?topic={topic}&channel=archive")
        response = api.getresponse()
        assert (response.status, response.read()) == (200, b"")
        api.close()

        client.close()
        wait_until(lambda: deleted(peer, "archive") == ErrorCode.NONE, "the group is deleted")
        publisher.close()
        peer.close()
