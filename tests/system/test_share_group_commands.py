"""`ottla group` for share groups: what is in flight and who holds it, moved and deleted, on a running broker."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from ottla.cli.main import run as run_command
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.system.share_member import ShareMember
from tests.system.test_share_groups import ACCEPT, NONE, REJECT, RELEASE, WAIT_MS, prepare, produce


@pytest.fixture
def name() -> str:
    return f"work-{uuid4().hex[:8]}"


def described(broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The document of a group."""
    capsys.readouterr()
    assert run_command(["group", "describe", "--bootstrap", broker.bootstrap, name, "--json"]) == 0
    [document] = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


def test_describe_tells_what_is_in_flight_and_who_holds_the_oldest_record(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(broker, name)
    produce(broker, name, *"abcdef")
    member = ShareMember(broker.port, name, name).join(1)
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 5, 1)]}
    assert member.settle((0, 0, ACCEPT), (1, 1, REJECT), (4, 4, RELEASE), (5, 5, RELEASE)) == NONE
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(4, 5, 2)]}
    assert member.settle((5, 5, RELEASE)) == NONE
    produce(broker, name, "new")

    found = described(broker, name, capsys)
    assert (found["type"], found["state"], found["lag"]) == ("share", "Stable", 5)
    assert [each["member_id"] for each in found["members"]] == [member.member_id]
    [partition] = found["partitions"]
    assert partition.pop("lag_ms") >= 0
    assert partition == {
        "topic": name,
        "partition": 0,
        "start_offset": 2,
        "log_end_offset": 7,
        "lag": 5,
        "in_flight": 3,
        "waiting": 0,
        "returned": 1,
        "redelivered": 2,
        "deliveries_most": 2,
        "accepted": 1,
        "archived": 1,
        "oldest": {"offset": 2, "deliveries": 1, "member_id": member.member_id},
    }

    assert run_command(["group", "describe", "--bootstrap", broker.bootstrap, name]) == 0
    shown = capsys.readouterr().out
    assert "IN-FLIGHT" in shown
    assert member.member_id in shown
    assert run_command(["group", "list", "--bootstrap", broker.bootstrap, "--json"]) == 0
    assert {"group": name, "protocol_type": "share", "state": "Stable", "type": "share"} in json.loads(
        capsys.readouterr().out
    )


def test_a_group_whose_members_are_gone_shows_what_is_stored(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(broker, name)
    produce(broker, name, "a", "b", "c")
    member = ShareMember(broker.port, name, name).join(1)
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 2, 1)]}
    assert member.settle((0, 1, ACCEPT)) == NONE
    member.fetch_raw(session_epoch=-1)
    member.heartbeat(-1)
    found = described(broker, name, capsys)
    assert found["state"] == "Empty"
    [partition] = found["partitions"]
    assert (partition["start_offset"], partition["lag"], partition["oldest"]) == (2, 1, None)


def test_a_group_is_moved_under_a_member_that_goes_on_with_its_session(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(broker, name)
    produce(broker, name, "a", "b", "c")
    member = ShareMember(broker.port, name, name).join(1)
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 2, 1)]}
    assert member.settle((0, 2, ACCEPT)) == NONE
    assert run_command(["group", "seek", "--bootstrap", broker.bootstrap, name, f"{name}:0=1"]) == 0
    capsys.readouterr()
    found: list[object] = []

    def is_delivered() -> bool:
        found.append(member.fetch(max_wait_ms=500))
        return bool(found[-1])

    wait_until(is_delivered, "records come again", 60)
    assert found[-1] == {0: [(1, 2, 1)]}


def test_members_stay_where_the_partition_to_move_to_does_not_exist(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(broker, name)
    member = ShareMember(broker.port, name, name).join(1)
    assert run_command(["group", "seek", "--bootstrap", broker.bootstrap, name, f"{name}:9=1"]) == 4
    assert "removed" not in capsys.readouterr().err
    assert member.heartbeat().error_code == NONE


def test_a_running_group_is_moved_and_delivers_again(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(broker, name)
    produce(broker, name, "a", "b", "c")
    member = ShareMember(broker.port, name, name).join(1)
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 2, 1)]}
    assert member.settle((0, 2, ACCEPT)) == NONE
    capsys.readouterr()
    arguments = ["--bootstrap", broker.bootstrap, "--json"]
    assert run_command(["group", "seek", *arguments, name, f"{name}:0=1"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"group": name, "topic": name, "partition": 0, "committed_offset": 3, "new_offset": 1}
    ]
    other = ShareMember(broker.port, name, name).join(1)
    assert other.fetch(max_wait_ms=WAIT_MS) == {0: [(1, 2, 1)]}
    other.fetch_raw(session_epoch=-1)
    other.heartbeat(-1)
    assert run_command(["group", "reset", *arguments, name, "--all-topics", "--to-earliest"]) == 0
    capsys.readouterr()
    assert described(broker, name, capsys)["partitions"][0]["start_offset"] == 0


def test_offsets_of_whole_topics_and_groups_are_deleted(
    broker: BrokerProcess, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(broker, name)
    produce(broker, name, "a")
    member = ShareMember(broker.port, name, name).join(1)
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 0, 1)]}
    where = ["--bootstrap", broker.bootstrap]
    assert run_command(["group", "delete", *where, name]) == 1
    assert "it has members" in capsys.readouterr().err
    member.fetch_raw(session_epoch=-1)
    member.heartbeat(-1)
    assert run_command(["group", "delete-offsets", *where, name, f"{name}:0"]) == 1
    assert "whole topics" in capsys.readouterr().err
    assert run_command(["group", "delete-offsets", *where, name, name]) == 0
    assert described(broker, name, capsys)["partitions"] == []
    assert run_command(["group", "delete", *where, name]) == 0
    assert run_command(["group", "describe", *where, name]) == 4
